package topology

import (
	"strconv"
	"strings"
)

// fit cuts a text to a width in pixels, as fonts of the size draw it at most; what is cut off ends in "…".
func fit(text string, size float64, width int) string {
	room := float64(width)
	if widthOf(text, size) <= room {
		return text
	}
	room -= widthOf("…", size)
	var out strings.Builder
	for _, r := range text {
		if room -= glyph(r) * size; room < 0 {
			break
		}
		out.WriteRune(r)
	}
	return strings.TrimRight(out.String(), " .,-·") + "…"
}

func widthOf(text string, size float64) (w float64) {
	for _, r := range text {
		w += glyph(r) * size
	}
	return w
}

// glyph is how wide a character is at most, in parts of the font's size: of the usual fonts of systems, rather too wide than too narrow.
func glyph(r rune) float64 {
	switch {
	case strings.ContainsRune("iljtfrI.,:;|!'()[] ", r):
		return 0.38
	case strings.ContainsRune("mwMW@%…", r):
		return 0.98
	case r >= 'A' && r <= 'Z':
		return 0.74
	case r > 0x2e80: // of scripts whose characters are as wide as high
		return 1.05
	}
	return 0.6
}

// joined is two parts of a line, where there are both.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " · " + b
}

// list is words one after the other, as above a column: "Bonds, VLANs".
func list(words []string) string { return strings.Join(words, ", ") }

// rate is a speed as people say it; empty: none is known.
func rate(mbps int) string {
	switch {
	case mbps <= 0:
		return ""
	case mbps >= 1000:
		return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) + " Gbit/s"
	}
	return strconv.Itoa(mbps) + " Mbit/s"
}
