package host

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// reservedCPUText describes the CPU time that VMs have reserved: "1.5 of 32 threads are reserved". A percent of 100 means
// one thread.
func reservedCPUText(percent int64, threads int) string {
	return strconv.FormatFloat(float64(percent)/100, 'f', -1, 64) + " of " + strconv.Itoa(threads) + " threads are reserved"
}

// overcommitText is the ratio of allocated vCPUs to threads: ", overcommit ratio 2.0:1". It is empty without
// overcommit.
func overcommitText(allocated, threads int) string {
	if threads == 0 || allocated <= threads {
		return ""
	}
	return ", overcommit ratio " + strconv.FormatFloat(float64(allocated)/float64(threads), 'f', 1, 64) + ":1"
}

// threadsText explains the number of allocatable vCPUs: "46 of 48 threads × 4.0".
func threadsText(c fleet.HostCapacity) string {
	text := kit.CountText(c.Threads, "thread")
	if c.ReservedThreads > 0 {
		text = strconv.Itoa(c.Threads-c.ReservedThreads) + " of " + text
	}
	return text + " × CPU overcommit " + kit.RatioText(c.Overcommit.CPU)
}

// memoryText explains the allocatable memory: "64 GiB − 1 GiB reserved, × memory overcommit 1.5".
func memoryText(c fleet.HostCapacity) string {
	text := kit.Bytes(c.MemoryMiB<<20) + " − " + kit.Bytes(c.ReservedMemoryMiB<<20) + " reserved"
	if c.Overcommit.Memory != 1 {
		text += ", × memory overcommit " + kit.RatioText(c.Overcommit.Memory)
	}
	return text
}
