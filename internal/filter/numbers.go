package filter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// Comparison is one alternative of a term with numbers.
type Comparison struct {
	Operator string  // =, <, <=, > or >=
	Number   float64 // in the key's unit; a date is the day's start in Unix seconds
}

// Matches reports whether the comparison holds for the number.
func (c Comparison) Matches(number float64) bool {
	switch c.Operator {
	case "<":
		return number < c.Number
	case "<=":
		return number <= c.Number
	case ">":
		return number > c.Number
	case ">=":
		return number >= c.Number
	default:
		return number == c.Number
	}
}

// parseComparisons parses the numbers of a term whose key has a unit.
func (t *Term) parseComparisons(k fleet.FilterKey, operator string, value fleet.QuotedText) error {
	if operator == ":" {
		operator = "="
	}
	for more := true; more; {
		var one fleet.QuotedText
		one, value, more = value.CutAtUnquoted(',')
		number, ok := parseNumber(k.Unit, one.String())
		if !ok {
			return invalid("%s:%s is not %s.", k.Key, one, numberExample(k.Unit, k.Key))
		}
		t.Comparisons = append(t.Comparisons, Comparison{operator, number})
	}
	if len(t.Comparisons) > maxAlternatives {
		return invalid("%s: has more than %d values.", t.Key, maxAlternatives)
	}
	return nil
}

// parseNumber returns the number that a filter's text means.
func parseNumber(u fleet.FilterUnit, text string) (number float64, ok bool) {
	switch u {
	case fleet.UnitDate:
		day, err := time.Parse(time.DateOnly, text)
		return float64(day.Unix()), err == nil
	case fleet.UnitSize:
		factor := 1.0
		if i := strings.IndexAny(text, "kKmMgGtT"); i > 0 {
			suffix := strings.ToUpper(text[i:])
			if len(suffix) > 1 && suffix[1:] != "B" && suffix[1:] != "IB" {
				return 0, false
			}
			factor = float64(int64(1) << (10 * (1 + strings.IndexByte("KMGT", suffix[0]))))
			text = text[:i]
		}
		number, ok = parsePlainNumber(text)
		return number * factor, ok
	default:
		return parsePlainNumber(strings.TrimSuffix(text, "%"))
	}
}

// parsePlainNumber parses a decimal number without exponent, hexadecimal digits, infinity and NaN.
func parsePlainNumber(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.-") != "" {
		return 0, false
	}
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil
}

// numberExample describes the values of the unit for an error.
func numberExample(u fleet.FilterUnit, key string) string {
	switch u {
	case fleet.UnitDate:
		return fmt.Sprintf("a day. Write %s>2026-01-31 or %s:2026-01-31", key, key)
	case fleet.UnitSize:
		return fmt.Sprintf("a size. Write %s>4G or %s<=512M", key, key)
	default:
		return fmt.Sprintf("a number. Write %s>4 or %s:4", key, key)
	}
}
