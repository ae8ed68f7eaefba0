package topology

import (
	"strconv"
	"strings"
)

// cutToWidth cuts a text to a width in pixels, assuming wide glyphs of the font size. A cut text ends in "…".
func cutToWidth(text string, size float64, width int) string {
	room := float64(width)
	if textWidthOf(text, size) <= room {
		return text
	}
	room -= textWidthOf("…", size)
	var out strings.Builder
	for _, r := range text {
		if room -= glyphWidth(r) * size; room < 0 {
			break
		}
		out.WriteRune(r)
	}
	return strings.TrimRight(out.String(), " .,-·") + "…"
}

func textWidthOf(text string, size float64) (w float64) {
	for _, r := range text {
		w += glyphWidth(r) * size
	}
	return w
}

// glyphWidth is the maximum width of a character, as a fraction of the font size. It overestimates rather than
// underestimates common system fonts.
func glyphWidth(r rune) float64 {
	switch {
	case strings.ContainsRune("iljtfrI.,:;|!'()[] ", r):
		return 0.38
	case strings.ContainsRune("mwMW@%…", r):
		return 0.98
	case r >= 'A' && r <= 'Z':
		return 0.74
	case r > 0x2e80: // East Asian and other full-width characters
		return 1.05
	}
	return 0.6
}

// joinText joins two parts of a line, if both are present.
func joinText(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " · " + b
}

// joinWords joins words, as in a column header: "Bonds, VLANs".
func joinWords(words []string) string { return strings.Join(words, ", ") }

// speedText formats a link speed; empty: unknown.
func speedText(mbps int) string {
	switch {
	case mbps <= 0:
		return ""
	case mbps >= 1000:
		return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) + " Gbit/s"
	}
	return strconv.Itoa(mbps) + " Mbit/s"
}
