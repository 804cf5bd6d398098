//! What Linux does otherwise since scripts were written, by the change of Linux. The scripts are played with what they
//! expect replaced accordingly, and the kernel must pass them then as the lab does.

/// A change of Linux, and what it changes in a script.
pub struct Amendment {
    script: &'static str,
    /// The title of the change, and the first version that has it.
    change: &'static str,
    /// Lines, or parts of them, and what stands there since.
    edits: &'static [(&'static str, &'static str)],
}

const ROUNDS: &str = "\"tcp_cubic: fix incorrect HyStart round start detection\", 6.14";

const AMENDMENTS: [Amendment; 5] = [
    Amendment {
        script: "cubic/cubic-bulk-166k",
        change: ROUNDS,
        edits: &[
            ("tcpi_snd_cwnd == 40,", "tcpi_snd_cwnd == 36,"),
            ("tcpi_snd_cwnd == 48,", "tcpi_snd_cwnd == 36,"),
            ("tcpi_snd_cwnd == 49,", "tcpi_snd_cwnd == 37,"),
            ("tcpi_snd_cwnd == 50,", "tcpi_snd_cwnd == 39,"),
            ("tcpi_snd_cwnd == 52,", "tcpi_snd_cwnd == 45,"),
            ("cwnd = 58;", "cwnd = 54;"),
        ],
    },
    Amendment {
        script: "cubic/cubic-bulk-166k-idle-restart",
        change: ROUNDS,
        edits: &[
            ("tcpi_snd_cwnd == 40,", "tcpi_snd_cwnd == 36,"),
            ("tcpi_snd_cwnd == 48,", "tcpi_snd_cwnd == 36,"),
            ("tcpi_snd_cwnd == 48,", "tcpi_snd_cwnd == 37,"),
            ("tcpi_snd_cwnd == 49,", "tcpi_snd_cwnd == 38,"),
            ("tcpi_snd_cwnd == 52,", "tcpi_snd_cwnd == 41,"),
            ("tcpi_snd_cwnd == 58,", "tcpi_snd_cwnd == 48,"),
        ],
    },
    Amendment {
        script: "cwnd_moderation/cwnd-moderation-ecn-enter-cwr-no-moderation-700",
        change: "\"tcp: avoid slow start during fast recovery on new losses\", 5.11",
        edits: &[("tcpi_snd_cwnd == 4,", "tcpi_snd_cwnd == 5,")],
    },
    Amendment {
        script: "fast_retransmit/fr-4pkt-fack-last-mss",
        change: "\"tcp: fix excessive TLP and RACK timeouts from HZ rounding\", 6.6",
        // A quarter of the round trip and 2 ms, as two scripts on SACK expect it.
        edits: &[("+.040 >", "+.027 >")],
    },
    Amendment {
        script: "ts_recent/invalid_ack",
        change: "\"tcp: send a challenge ACK on SEG.ACK > SND.NXT\", 7.1 and 6.18",
        edits: &[(
            "TS val 200000 ecr 100>\n",
            "TS val 200000 ecr 100>\n+0 > . 1:1(0) ack 1 <nop,nop,TS val 200 ecr 200>\n",
        )],
    },
];

/// The change that a script needs, if there is one, and the script with it.
pub fn amended(script: &str, text: &str) -> Option<(&'static str, String)> {
    let amendment = AMENDMENTS
        .iter()
        .find(|amendment| amendment.script == script)?;
    let mut text = text.to_owned();
    for (from, to) in amendment.edits {
        assert!(text.contains(from), "{script} has no {from}");
        text = text.replacen(from, to, 1);
    }
    Some((amendment.change, text))
}
