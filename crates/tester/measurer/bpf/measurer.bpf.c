/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The Measurer in the kernel. Both programs are in one object because they share their accounts. */
#include "generator.h"
#include "sink.h"

char _license[] SEC("license") = "Dual MIT/GPL";
