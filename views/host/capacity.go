package host

import "strconv"

// reserved describes the CPU share reserved for VMs.
func reserved(percent int64, threads int) string {
	return strconv.FormatFloat(float64(percent)/100, 'f', -1, 64) + " of " + strconv.Itoa(threads) + " are reserved"
}

// ratio describes the CPU overcommit ratio; empty: no overcommit.
func ratio(allocated, threads int) string {
	if threads == 0 || allocated <= threads {
		return ""
	}
	return ", each " + strconv.FormatFloat(float64(allocated)/float64(threads), 'f', 1, 64) + " times over"
}
