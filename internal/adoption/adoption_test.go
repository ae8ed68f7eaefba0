package adoption_test

import (
	"strings"
	"testing"

	"quantix/internal/adoption"
	"quantix/internal/fleet"
)

func TestNameMadeFromAnyDomainName(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]string{
		"web-1": "web-1", "Legacy ERP_1": "legacy-erp-1", "büro.crm": "b-ro.crm", "---": "", "日本": "", "-a.": "a",
		strings.Repeat("x", 62) + ".y": strings.Repeat("x", 62), strings.Repeat("x", 200): strings.Repeat("x", 63),
	} {
		got := adoption.Name(domain)
		var checks fleet.Checks
		if fleet.CheckName(&checks, "name", got); got != want || got != "" && checks.Len() > 0 {
			t.Errorf("the domain %q gets the name %q, want %q", domain, got, want)
		}
	}
}

func TestDescriptionCutToItsLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"short": "short", strings.Repeat("ü", 5000): strings.Repeat("ü", fleet.MaxDescription/2), "a\x00b": "", "bad \xff": "bad ",
	} {
		got, kept := adoption.Description(text)
		if got != want || kept != (got == text) {
			t.Errorf("a description of %d bytes becomes %d bytes, %v", len(text), len(got), kept)
		}
	}
}

func TestVerbatimPartsBounded(t *testing.T) {
	t.Parallel()
	all := []string{"a", "a", " ", "b\x00", strings.Repeat("x", 1000)}
	for range 3 {
		for i := range 100 {
			all = append(all, strings.Repeat("y", i+1))
		}
	}
	for i := range 200 {
		all = append(all, "part "+strings.Repeat("z", i%190)+string(rune('a'+i%26)))
	}
	got := adoption.BoundVerbatim(all)
	if len(got) != 201 || got[0] != "a" || got[1] != "b?" || len([]rune(got[2])) != 201 || !strings.HasPrefix(got[200], "More parts") {
		t.Errorf("%d parts, the first are %q", len(got), got[:3])
	}
}

func TestNICSourceNamesNetworkOrBridge(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"network default": "libvirt default true", "network lan, port group red": "libvirt lan true", "bridge br0": "bridge br0 true", "user": "  false", "direct eth0": "  false", "network ": "  false",
	} {
		kind, name, ok := adoption.ParseNICSource(source)
		if got := string(kind) + " " + name; ok && got+" true" != want || ok != strings.HasSuffix(want, "true") {
			t.Errorf("the source %q is %q, %v", source, got, ok)
		}
	}
}
