package kit

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// TextOrDash is the text, or a dash for an empty text.
func TextOrDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// Bytes formats a size in bytes.
func Bytes(n int64) string { return fleet.FormatBytes(n) }

// MiB formats a memory size given in MiB.
func MiB(n int) string { return Bytes(int64(n) << 20) }

// RatioText formats an overcommit ratio with at least one decimal: "4.0".
func RatioText(r float64) string {
	text := fleet.FormatRatio(r)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// CountText formats a number with its unit, pluralized: "1 VM", "3 VMs".
func CountText(n int, singular string) string {
	if n == 1 {
		return "1 " + singular
	}
	return strconv.Itoa(n) + " " + singular + "s"
}

// MoreText is the number of items that a list leaves out: "and 3 more".
func MoreText(n int) string { return "and " + strconv.Itoa(n) + " more" }

// Percent is part as a percentage of whole, from 0 to 100.
func Percent(part, whole int64) int {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return int(min(100, (part*100+whole/2)/whole))
}

// LabelTexts lists labels in the order of their keys: "env=prod".
func LabelTexts(labels map[string]string) []string {
	out := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return out
}

// LabelLines formats labels as in a form field, one per line.
func LabelLines(labels map[string]string) string { return strings.Join(LabelTexts(labels), "\n") }

// ElementIDSlug replaces all characters of a text that are not safe in an element id.
func ElementIDSlug(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
}

// HostNameInText is a host's name for use within a sentence. An actor who may not see hosts gets "its host".
func HostNameInText(name string) string { return cmp.Or(name, "its host") }

// HostNameAtSentenceStart is HostNameInText for the beginning of a sentence.
func HostNameAtSentenceStart(name string) string { return cmp.Or(name, "Its host") }

// Capitalize is the text with a capital first letter.
func Capitalize(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
