package host

import "strconv"

// reservedText describes the CPU time that VMs have reserved: "1.5 of 32 threads are reserved". A percent of 100 means
// one thread.
func reservedText(percent int64, threads int) string {
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
