package fleet

import (
	"fmt"
	"strings"
)

// FormatBytes formats a size with at most three digits: "1.5 GiB", "512 MiB".
func FormatBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	v, i := float64(n), 0
	for v >= 1023.5 && i < len(units)-1 { // 1023.5 would be printed as 1024, so use the next unit
		v, i = v/1024, i+1
	}
	if i == 0 || v >= 100 || v == float64(int64(v)) {
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[i]
}
