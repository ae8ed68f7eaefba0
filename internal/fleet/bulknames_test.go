package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestBulkNamesExpandCounter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		series  fleet.BulkNames
		want    string
	}{
		{"web", fleet.BulkNames{}, "web"},
		{"web", fleet.BulkNames{Count: 1}, "web"},
		{"web-{n}", fleet.BulkNames{}, "web-1"},
		{"web-{n}", fleet.BulkNames{Count: 3}, "web-1 web-2 web-3"},
		{"web-{nn}", fleet.BulkNames{Count: 2, First: 9}, "web-09 web-10"},
		{"{nnn}.db", fleet.BulkNames{Count: 2, First: 99}, "099.db 100.db"},
		{"n{n}n", fleet.BulkNames{Count: 2, First: 7}, "n7n n8n"},
		{strings.Repeat("a", 60) + "-{n}", fleet.BulkNames{Count: 2, First: 8}, strings.Repeat("a", 60) + "-8 " + strings.Repeat("a", 60) + "-9"},
	} {
		var checks fleet.Checks
		names := c.series.ExpandPattern(&checks, c.pattern)
		if err := checks.Err(); err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("%q %+v: %q, %v", c.pattern, c.series, names, err)
		}
	}
	var checks fleet.Checks
	if names := (fleet.BulkNames{Count: fleet.MaxBulkCreate}).ExpandPattern(&checks, "w{n}"); len(names) != fleet.MaxBulkCreate || len(slices.Compact(slices.Sorted(slices.Values(names)))) != fleet.MaxBulkCreate {
		t.Errorf("%d names", len(names))
	}
}

func TestInvalidBulkNamesRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		series  fleet.BulkNames
		field   string
		says    string
	}{
		{"web", fleet.BulkNames{Count: 2}, "name", "VMs need a counter in their name:"},
		{"web-{n}", fleet.BulkNames{Count: 101}, "count", "1 to 100"},
		{"web-{n}", fleet.BulkNames{Count: -1}, "count", "1 to 100"},
		{"web-{n}", fleet.BulkNames{First: -1}, "first", "between 0"},
		{"web-{n}", fleet.BulkNames{First: 1_000_001}, "first", "between 0"},
		{"web-{n}-{n}", fleet.BulkNames{Count: 2}, "name", "Use only one counter, as in web-{n}."},
		{"web-{nn}{n}", fleet.BulkNames{}, "name", "Use only one counter, as in web-{n}."},
		{"web-{m}", fleet.BulkNames{Count: 2}, "name", "Write a counter as {n}, or as {nn} for"},
		{"web-{}", fleet.BulkNames{}, "name", "Write a counter as {n}, or as {nn} for"},
		{"web-{n", fleet.BulkNames{}, "name", "Write a counter as {n}, or as {nn} for"},
		{"web-n}", fleet.BulkNames{Count: 2}, "name", "Write a counter as {n}, or as {nn} for"},
		{"web-{n}{x}", fleet.BulkNames{Count: 2}, "name", "Write a counter as {n}, or as {nn} for"},
		{"{{n}}", fleet.BulkNames{}, "name", "Write a counter as {n}, or as {nn} for"},
		{"", fleet.BulkNames{}, "name", "Enter a name"},
		{"", fleet.BulkNames{Count: 2}, "name", "VMs need a counter in their name:"},
		{"Web-{n}", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		{"-{n}", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		{"web-{n}-", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		{"a;id-{n}", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		{"web {n}", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		{"../{n}", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		{"w\u202e{n}", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		{"w\x00{n}", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		{strings.Repeat("a", 60) + "-{n}", fleet.BulkNames{Count: 90}, "name", ""},
		{strings.Repeat("a", 62) + "-{n}", fleet.BulkNames{Count: 2}, "name", "lower-case"},
		// Only the last of these names is too long.
		{strings.Repeat("a", 61) + "-{n}", fleet.BulkNames{Count: 2, First: 9}, "name", "lower-case"},
		{"{" + strings.Repeat("n", 70) + "}", fleet.BulkNames{}, "name", "lower-case"},
	} {
		var checks fleet.Checks
		c.series.ExpandPattern(&checks, c.pattern)
		err, _ := errors.AsType[*fleet.Error](checks.Err())
		if c.says == "" {
			if err != nil {
				t.Errorf("%q %+v: %v", c.pattern, c.series, err)
			}
			continue
		}
		if err == nil || err.Fields[0].Field != c.field || !strings.Contains(err.Fields[0].Message, c.says) {
			t.Errorf("%q %+v: %+v", c.pattern, c.series, err)
		}
	}
}
