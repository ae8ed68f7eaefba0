package host

import "strconv"

// reservedText describes the CPU share that VMs have reserved; percent is 100 for one thread: "1.5 of 32 threads are
// reserved".
func reservedText(percent int64, threads int) string {
	return strconv.FormatFloat(float64(percent)/100, 'f', -1, 64) + " of " + strconv.Itoa(threads) + " threads are reserved"
}

// overcommitText describes the ratio of allocated vCPUs to threads: ", overcommit ratio 2.0:1". Empty: no overcommit.
func overcommitText(allocated, threads int) string {
	if threads == 0 || allocated <= threads {
		return ""
	}
	return ", overcommit ratio " + strconv.FormatFloat(float64(allocated)/float64(threads), 'f', 1, 64) + ":1"
}
