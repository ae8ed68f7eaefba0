package fleet

import (
	"strings"
	"testing"
)

func TestSelectorParsesAndMatches(t *testing.T) {
	t.Parallel()
	hosts := map[string]map[string]string{
		"bare": nil, "r4": {"rack": "4"}, "r4-ssd": {"rack": "4", "ssd": ""}, "r40": {"rack": "40", "ssd": "yes"}, "zone": {"zone": "a, b*"},
	}
	for _, c := range []struct{ text, reads, matches string }{
		{"", "", ""},
		{" , \n", "", ""},
		{"rack=4", "rack=4", "r4 r4-ssd"},
		{" rack = 4 ,ssd,", "rack=4, ssd", "r4-ssd"},
		{"ssd\nrack=4", "rack=4, ssd", "r4-ssd"},
		{"ssd", "ssd", "r4-ssd r40"},
		{"ssd, ssd, rack", "rack, ssd", "r4-ssd r40"},
		{"rack, rack=40", "rack=40", "r40"},
		{`zone="a, b*"`, `zone="a, b*"`, "zone"},
		{"rack=4=4", "rack=4=4", ""},
	} {
		var checks Checks
		s := ParseSelector(&checks, "selector", c.text)
		if err := checks.Err(); err != nil || s.String() != c.reads || s.IsEmpty() != (c.reads == "") {
			t.Errorf("%q parses as %q, %v, want %q", c.text, s.String(), err, c.reads)
		}
		if again := ParseSelector(&checks, "selector", s.String()); again.String() != s.String() {
			t.Errorf("%q parses as %q again", s.String(), again.String())
		}
		for name, labels := range hosts {
			if want := strings.Contains(" "+c.matches+" ", " "+name+" "); s.Matches(labels) != want {
				t.Errorf("%q matches %s: %t", c.text, name, !want)
			}
		}
	}
}

func TestInvalidSelectorRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"rack=":           "Write rack=value, or rack alone",
		"=4":              `Label key ""`,
		"Rack=4":          `Label key "Rack"`,
		"rack 4":          `Label key "rack 4"`,
		"rack=4, rack=5":  "A label has only one value, and rack has two",
		"rack=4*":         "write key=value, or the key alone.",
		"ra*":             "write key=value, or the key alone.",
		`zone="a`:         "quotation mark is not closed",
		"rack=" + "x\x00": "one line of at most 255 bytes",
		"a" + strings.Repeat(",a1", 1) + strings.Repeat("x", 63): "63 at most",
		"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q":                      "at most 16 labels",
	} {
		var checks Checks
		ParseSelector(&checks, "selector", text)
		if err := checks.Err(); CodeOf(err) != Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
