package kit

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// Dash is the text, or a dash where there is none.
func Dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// Bytes writes a size as people read it.
func Bytes(n int64) string { return fleet.Bytes(n) }

// MiB writes a memory size given in MiB.
func MiB(n int) string { return Bytes(int64(n) << 20) }

// Count writes a number with a noun: "1 VM", "3 VMs".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Percent of part in whole, 0 to 100.
func Percent(part, whole int64) int {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return int(min(100, (part*100+whole/2)/whole))
}

// labelList is labels in the order of their keys: "env=prod".
func labelList(labels map[string]string) []string {
	out := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return out
}

// LabelText is labels as a form shows them: one a line.
func LabelText(labels map[string]string) string { return strings.Join(labelList(labels), "\n") }

// Slug makes text safe inside an element's id.
func Slug(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
}

// AHost and TheHost name a host within a sentence and at its beginning; who sees no hosts is not told which.
func AHost(name string) string { return cmp.Or(name, "its host") }

// TheHost is aHost at the beginning of a sentence.
func TheHost(name string) string { return cmp.Or(name, "Its host") }

// Capital is the text with a capital at its beginning.
func Capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
