package topology

import (
	"testing"

	"quantix/internal/fleet"
)

func TestNodeTextsFitTheirBoxes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"br0": "br0", "a-rather-long-name-of-a-vm-07": "a-rather-long…", "": "",
		"日本語の名前の仮想マシン": "日本語の名前の…",
	} {
		got := cutToWidth(text, 12, 100)
		if got != want || textWidthOf(got, 12) > 100 {
			t.Errorf("%q is cut to %q, %.0f wide, want %q", text, got, textWidthOf(got, 12), want)
		}
	}
	b := Box{Node: Node{Severity: fleet.SeverityOK, Word: "Running", Detail: "192.168.122.17"}, W: boxWidth}
	if got := b.secondLine(); got != "192.168.122.17" {
		t.Errorf("a healthy VM without space for both texts shows %q", got)
	}
	b.Severity, b.Word = fleet.SeverityBad, "Crashed"
	if got := b.secondLine(); got != cutToWidth("Crashed · 192.168.122.17", detailSize, b.textWidth()) || got[:7] != "Crashed" {
		t.Errorf("a failed VM shows %q", got)
	}
}
