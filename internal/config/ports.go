package config

import (
	"strconv"
	"strings"
)

// TransferPorts parses the setting transferPorts and returns the first and last port: 0 and 0 for any port, -1 and -1
// for none.
func TransferPorts(text string) (first, last int, ok bool) {
	switch text {
	case "":
		return 0, 0, true
	case "none":
		return -1, -1, true
	}
	from, to, both := strings.Cut(text, "-")
	if !both {
		to = from
	}
	first, err := strconv.Atoi(from)
	last, wrong := strconv.Atoi(to)
	return first, last, err == nil && wrong == nil && first > 0 && first <= last && last < 1<<16
}
