import { expect, test } from "vitest";
import { format, parse, unused } from "../src/url";

test("a view comes back as it was", () => {
  const view = {
    first: "here.pcap",
    second: "there.pcap",
    capture: "a & b #1.pcap",
    flow: 7,
    segment: 0,
    side: "client" as const,
    from: 1.25,
    to: 3.5,
    window: 0.25,
    sort: "goodput",
    descending: true,
    find: "10.0.0.1",
    cause: "policer",
    all: true,
  };
  expect(parse(format(view))).toEqual(view);
  expect(format({})).toBe("");
});

test("what makes no sense is left out", () => {
  expect(parse("#flow=-1&segment=x&from=&to=NaN&window=0&side=left&all=yes&more=1")).toEqual({});
});

test("captures of one file name have different names", () => {
  const open: string[] = [];
  for (const file of ["a.pcap", "b.pcap", "a.pcap", "a.pcap (2)", "a.pcap"]) open.push(unused(file, open));
  expect(open).toEqual(["a.pcap", "b.pcap", "a.pcap (2)", "a.pcap (2) (2)", "a.pcap (3)"]);
});
