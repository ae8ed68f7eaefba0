package exposition

import (
	"strings"
	"unicode/utf8"
)

// MaxLabelBytes limits the value of a label.
const MaxLabelBytes = 256

// LabelValue returns a value that Prometheus accepts: valid UTF-8 of at most MaxLabelBytes.
func LabelValue(text string) string {
	if len(text) > MaxLabelBytes {
		cut := MaxLabelBytes
		for cut > MaxLabelBytes-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Labels returns the text of labels: name, value, name, value and so on.
func Labels(pairs ...string) string {
	var out strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(pairs[i])
		out.WriteString(`="`)
		_, _ = labelEscaper.WriteString(&out, LabelValue(pairs[i+1])) // a Builder has no errors
		out.WriteByte('"')
	}
	return out.String()
}
