package host

import (
	"slices"
	"strconv"
	"strings"
)

// numberRangesText writes sorted numbers as ranges: "0-15, 32-47".
func numberRangesText(numbers []int) string {
	all := slices.Sorted(slices.Values(numbers))
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		part := strconv.Itoa(all[i])
		if j > i {
			part += "-" + strconv.Itoa(all[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
