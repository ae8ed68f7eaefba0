package form

import "testing"

func TestDiskSizeShownInMiBBelowOneGiB(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]struct{ size, unit string }{
		64 << 20: {"64", "MiB"}, 1<<30 - 1<<19: {"1023.5", "MiB"}, 1 << 30: {"1", "GiB"}, 20<<30 + 1<<29: {"20.5", "GiB"}, 512: {"0.00048828125", "MiB"},
	} {
		size, unit := DiskSizeText(bytes)
		if size != want.size || unit != want.unit {
			t.Errorf("%d bytes are %s %s, want %s %s", bytes, size, unit, want.size, want.unit)
		}
		if back, err := ParseDiskSizeIn(unit)(size); back != bytes || err != nil {
			t.Errorf("%s %s are parsed as %d bytes: %v", size, unit, back, err)
		}
	}
}

func TestInvalidDiskSizesRefused(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"MiB", "GiB", ""} {
		for _, text := range []string{"lots", "-1", "NaN", "Inf", "1e30", "1 MiB"} {
			if n, err := ParseDiskSizeIn(unit)(text); err == nil {
				t.Errorf("%q in %q is %d bytes", text, unit, n)
			}
		}
	}
}
