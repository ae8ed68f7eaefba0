package form

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// ParseField parses text with parse. After a parse error, it adds the error to c at the field and returns the zero
// value.
func ParseField[T any](c *fleet.Checks, field, text string, parse func(string) (T, error)) T {
	v, err := parse(text)
	if err != nil {
		c.Add(field, "%s", err)
	}
	return v
}

// ParseLabels parses labels as users type them: one "key=value" per line.
func ParseLabels(c *fleet.Checks, field, text string) map[string]string {
	labels := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			c.Add(field, "Write one label per line as key=value; %q has no \"=\".", line)
			continue
		}
		labels[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return labels
}

// ParseNumber parses a whole number; empty text is 0.
func ParseNumber(text string) (int, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("Enter a whole number.")
	}
	return n, nil
}

// ParseGeneration parses the generation in a form's hidden field. It returns 0 if the field is missing, which disables the
// check for concurrent edits.
func ParseGeneration(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// ParseRatio parses a ratio such as "1.5"; empty text is 0.
func ParseRatio(text string) (float64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 {
		return 0, errors.New("Enter a number above 0, such as 1.5.")
	}
	return n, nil
}

// RatioText formats a ratio as ParseRatio reads it.
func RatioText(r float64) string {
	if r == 0 {
		return ""
	}
	return fleet.FormatRatio(r)
}

// ParseDiskSize parses a disk size in GiB and returns bytes; empty text is 0.
func ParseDiskSize(text string) (int64, error) { return ParseDiskSizeIn("GiB")(text) }

// ParseDiskSizeIn returns the function that parses a disk size in MiB or, with any other unit, in GiB.
func ParseDiskSizeIn(unit string) func(text string) (int64, error) {
	factor := 1 << 30
	if unit == "MiB" {
		factor = 1 << 20
	} else {
		unit = "GiB"
	}
	return func(text string) (int64, error) {
		if text = strings.TrimSpace(text); text == "" {
			return 0, nil
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || n < 0 || n*float64(factor) > fleet.MaxDiskBytes {
			return 0, fmt.Errorf("Give the size as a number of %s, up to %d TiB.", unit, fleet.MaxDiskBytes>>40)
		}
		return int64(n * float64(factor)), nil
	}
}

// DiskSizeText formats bytes as a number and its unit: MiB below 1 GiB, else GiB. ParseDiskSizeIn returns the same bytes.
func DiskSizeText(n int64) (size, unit string) {
	if n < 1<<30 {
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', -1, 64), "MiB"
	}
	return GiBText(n), "GiB"
}

// GiBText formats bytes as GiB, so that ParseDiskSize returns the same bytes.
func GiBText(n int64) string { return strconv.FormatFloat(float64(n)/(1<<30), 'f', -1, 64) }

// ParseVolumeValue parses a volume as the value of a form field (see vmview.VolumeValue). Empty text is the zero
// Volref.
func ParseVolumeValue(value string) fleet.Volref {
	pool, volume, _ := strings.Cut(value, "/")
	return fleet.Volref{PoolID: fleet.PoolID(pool), Volume: volume}
}

// NewOSFacts returns the typed facts about a guest operating system.
func NewOSFacts(family, system, release, arch string) fleet.OSFacts {
	return fleet.OSFacts{Family: family, Name: strings.TrimSpace(system), Version: strings.TrimSpace(release), Arch: strings.TrimSpace(arch)}
}
