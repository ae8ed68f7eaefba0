package ovf

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

var unitForm = regexp.MustCompile(`^byte(?:\*(2|10)\^([0-9]{1,2}))?$`)

// oldUnits are the units used before OVF 1.0, which some tools still write.
var oldUnits = map[string]int64{
	"": 1, "bytes": 1, "kilobytes": 1 << 10, "kb": 1 << 10, "megabytes": 1 << 20, "mb": 1 << 20, "gigabytes": 1 << 30, "gb": 1 << 30, "terabytes": 1 << 40, "tb": 1 << 40,
}

const maxBytes = 1 << 50

// parseBytes converts a quantity to bytes. defaultUnit is the size in bytes of a quantity's unit if the unit is
// missing. Invalid and excessive quantities are errors; what names the quantity in the error.
func parseBytes(what, number, unit string, defaultUnit int64) (int64, error) {
	bad := invalidError("The descriptor gives %s as %q of %q, which is no quantity that a machine can have.", what, cleanLine(number), cleanLine(unit))
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 0 {
		return 0, bad
	}
	by := big.NewInt(defaultUnit)
	if text := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(unit), " ", "")); text != "" {
		if old, ok := oldUnits[text]; ok {
			by.SetInt64(old)
		} else if m := unitForm.FindStringSubmatch(text); m != nil {
			by.SetInt64(1)
			if m[1] != "" {
				base, _ := strconv.ParseInt(m[1], 10, 64)
				power, _ := strconv.ParseInt(m[2], 10, 64)
				by.Exp(big.NewInt(base), big.NewInt(power), nil)
			}
		} else {
			return 0, bad
		}
	}
	by.Mul(by, big.NewInt(n))
	if !by.IsInt64() || by.Int64() > maxBytes {
		return 0, bad
	}
	return by.Int64(), nil
}
