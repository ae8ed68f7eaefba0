package hypervisor_test

import (
	"encoding/xml"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

func TestInvalidUTF8NamesAreEscaped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "odd space & ü": "odd space & ü", "bad\xff.img": `bad\xff.img`, "\xfcber\xc3": `\xfcber\xc3`, "a\x01b\tc": "a\\u0001b\tc", "\uffff": `\uffff`,
	} {
		if got := hypervisor.EscapeInvalidText(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := hypervisor.EscapeInvalidText(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		var text struct {
			Is string `xml:",chardata"`
		}
		doc := "<a>" + escapedXML(got) + "</a>"
		if err := xml.Unmarshal([]byte(doc), &text); err != nil || !utf8.ValidString(got) || hypervisor.EscapeInvalidText(got) != got {
			t.Errorf("%q is no text: %v", got, err)
		}
	})
}

// escapedXML returns the text as libvirt writes it: it escapes only XML markup.
func escapedXML(text string) string {
	var out []byte
	for _, c := range []byte(text) {
		switch c {
		case '<', '>', '&':
			out = append(out, '_')
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

func TestFaultyVolumeSummaryNamesFirstVolume(t *testing.T) {
	t.Parallel()
	bad := func(name string) fleet.Volume { return fleet.Volume{Name: name, Fault: "Why."} }
	for want, in := range map[string][]fleet.Volume{
		"":                                  {{Name: "a"}},
		"The volume b cannot be used. Why.": {{Name: "a"}, bad("b")},
		"2 volumes cannot be used, the first of them b. Why.": {{Name: "a"}, bad("b"), bad("c")},
	} {
		if got := hypervisor.SummarizeFaultyVolumes(in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
