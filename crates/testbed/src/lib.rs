//! Plans run in real time with the TCP of the Linux kernel, in network namespaces.
