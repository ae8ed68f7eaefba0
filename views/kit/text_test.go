package kit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// checkResults checks the results of a function for each input in a table.
func checkResults[I comparable, O any](t *testing.T, name string, do func(I) O, table map[I]O) {
	t.Helper()
	for in, want := range table {
		if got := do(in); !cmp.Equal(got, want) {
			t.Errorf("%s(%v) is %v, not %v", name, in, got, want)
		}
	}
}

func TestByteSizesShowAtMostThreeDigits(t *testing.T) {
	t.Parallel()
	checkResults(t, "Bytes", Bytes, map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 100<<10 + 512: "100 KiB", 1<<20 - 1: "1 MiB", 512 << 20: "512 MiB",
		1 << 30: "1 GiB", 1<<30 + 1<<29: "1.5 GiB", 1<<40 - 1: "1 TiB", 10<<40 + 1: "10 TiB", 2 << 50: "2 PiB", 2000 << 50: "2000 PiB",
	})
	checkResults(t, "MiB", MiB, map[int]string{128: "128 MiB", 4096: "4 GiB", 1536: "1.5 GiB"})
}

func TestDurationsShowOneUnit(t *testing.T) {
	t.Parallel()
	checkResults(t, "Short", ShortDuration, map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", 999 * time.Millisecond: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", 119 * time.Second: "1 min",
		time.Hour: "1 h", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d", 400 * 24 * time.Hour: "400 d",
	})
	checkResults(t, "Took", ElapsedText, map[time.Duration]string{
		-time.Second: "0 ms", 99 * time.Millisecond: "99 ms", 640 * time.Millisecond: "0.6 s", 9949 * time.Millisecond: "9.9 s",
		9999 * time.Millisecond: "10 s", 12 * time.Second: "12 s", 200 * time.Second: "3 min",
	})
}

func TestCountPluralizesItsUnit(t *testing.T) {
	t.Parallel()
	checkResults(t, "Count", func(n int) string { return CountText(n, "VM") }, map[int]string{0: "0 VMs", 1: "1 VM", 2: "2 VMs"})
	checkResults(t, "Percent", func(of [2]int64) int { return Percent(of[0], of[1]) }, map[[2]int64]int{
		{0, 10}: 0, {1, 3}: 33, {2, 3}: 67, {10, 10}: 100, {11, 10}: 100, {1, 0}: 0, {-1, 10}: 0, {1 << 50, 1 << 51}: 50,
	})
	labels := map[string]string{"tier": "web", "env": "prod", "a": ""}
	if got := LabelLines(labels); got != "a=\nenv=prod\ntier=web" {
		t.Errorf("labels: %q", got)
	}
	checkResults(t, "Slug", ElementIDSlug, map[string]string{"vda-1_A": "vda-1_A", "web 01.é\"": "web-01---"})
	if got := LabelLines(nil); got != "" {
		t.Errorf("no labels: %q", got)
	}
}
