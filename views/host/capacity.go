package host

import "strconv"

// ratio says how often a thread is promised, where that is more than once.
func ratio(promised, threads int) string {
	if threads == 0 || promised <= threads {
		return ""
	}
	return ", each " + strconv.FormatFloat(float64(promised)/float64(threads), 'f', 1, 64) + " times over"
}
