package vmedit

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// Bounds of bulk create.
const (
	MaxBulkCreate = 100
	MaxBulkStart  = 1_000_000
)

// BulkNames is the number of VMs to create at once and the first number of their names.
type BulkNames struct {
	Count int `json:"count,omitempty" doc:"Number of VMs, at most 100; 0: one"`
	First int `json:"first,omitempty" doc:"Number of the first VM; 0: 1"`
}

var (
	counterForm = regexp.MustCompile(`\{n+\}`)
	bracesForm  = regexp.MustCompile(`[{}]`)
)

// ExpandPattern expands a name pattern to the names of the VMs. The counter {n} is the number, {nn} the number with at
// least two digits, and so on. A single VM needs no counter. Errors are added at name, count and first.
func (s BulkNames) ExpandPattern(c *fleet.Checks, pattern string) []string {
	count, first := max(s.Count, 1), s.First
	if first == 0 {
		first = 1
	}
	counters := counterForm.FindAllString(pattern, -1)
	before := c.Len()
	switch {
	case s.Count < 0 || s.Count > MaxBulkCreate:
		c.Add("count", "Create 1 to %d VMs at once.", MaxBulkCreate)
	case first < 0 || first > MaxBulkStart:
		c.Add("first", "The first number must be between 0 and %d.", MaxBulkStart)
	}
	switch {
	case len(counters) == 0 && bracesForm.MatchString(pattern), len(counters) > 0 && bracesForm.MatchString(counterForm.ReplaceAllString(pattern, "")):
		c.Add("name", "Write a counter as {n}, or as {nn} for at least two digits.")
	case len(counters) > 1:
		c.Add("name", "Use only one counter, as in web-{n}.")
	case len(counters) == 0 && count > 1:
		c.Add("name", "%d VMs need a counter in their name: write {n} for the number, as in web-{n}, or {nn} for two digits.", count)
	}
	if c.Len() > before {
		return nil
	}
	names := make([]string, count)
	for i := range names {
		names[i] = pattern
		if len(counters) == 1 {
			number := strconv.Itoa(first + i)
			if width := len(counters[0]) - 2; len(number) < width {
				number = strings.Repeat("0", width-len(number)) + number
			}
			names[i] = strings.Replace(pattern, counters[0], number, 1)
		}
	}
	fleet.CheckName(c, "name", names[0])
	if last := names[count-1]; c.Len() == before && len(last) != len(names[0]) {
		fleet.CheckName(c, "name", last)
	}
	return names
}

// Range returns the range of names for audit lines and tasks: "web-01 – web-12".
func (s BulkNames) Range(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s – %s", names[0], names[len(names)-1])
}
