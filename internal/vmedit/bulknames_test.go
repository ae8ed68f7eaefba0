package vmedit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

func TestBulkNamesExpandCounter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		series  vmedit.BulkNames
		want    string
	}{
		{"web", vmedit.BulkNames{}, "web"},
		{"web", vmedit.BulkNames{Count: 1}, "web"},
		{"web-{n}", vmedit.BulkNames{}, "web-1"},
		{"web-{n}", vmedit.BulkNames{Count: 3}, "web-1 web-2 web-3"},
		{"web-{nn}", vmedit.BulkNames{Count: 2, First: 9}, "web-09 web-10"},
		{"{nnn}.db", vmedit.BulkNames{Count: 2, First: 99}, "099.db 100.db"},
		{"n{n}n", vmedit.BulkNames{Count: 2, First: 7}, "n7n n8n"},
		{strings.Repeat("a", 60) + "-{n}", vmedit.BulkNames{Count: 2, First: 8}, strings.Repeat("a", 60) + "-8 " + strings.Repeat("a", 60) + "-9"},
	} {
		var checks fleet.Checks
		names := c.series.ExpandPattern(&checks, c.pattern)
		if err := checks.Err(); err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("%q %+v: %q, %v", c.pattern, c.series, names, err)
		}
	}
	var checks fleet.Checks
	if names := (vmedit.BulkNames{Count: vmedit.MaxBulkCreate}).ExpandPattern(&checks, "w{n}"); len(names) != vmedit.MaxBulkCreate || len(slices.Compact(slices.Sorted(slices.Values(names)))) != vmedit.MaxBulkCreate {
		t.Errorf("%d names", len(names))
	}
}

func TestInvalidBulkNamesRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		series  vmedit.BulkNames
		field   string
		says    string
	}{
		{"web", vmedit.BulkNames{Count: 2}, "name", "VMs need a counter in their name:"},
		{"web-{n}", vmedit.BulkNames{Count: 101}, "count", "1 to 100"},
		{"web-{n}", vmedit.BulkNames{Count: -1}, "count", "1 to 100"},
		{"web-{n}", vmedit.BulkNames{First: -1}, "first", "between 0"},
		{"web-{n}", vmedit.BulkNames{First: 1_000_001}, "first", "between 0"},
		{"web-{n}-{n}", vmedit.BulkNames{Count: 2}, "name", "Use only one counter, as in web-{n}."},
		{"web-{nn}{n}", vmedit.BulkNames{}, "name", "Use only one counter, as in web-{n}."},
		{"web-{m}", vmedit.BulkNames{Count: 2}, "name", "Write a counter as {n}, or as {nn} for"},
		{"web-{}", vmedit.BulkNames{}, "name", "Write a counter as {n}, or as {nn} for"},
		{"web-{n", vmedit.BulkNames{}, "name", "Write a counter as {n}, or as {nn} for"},
		{"web-n}", vmedit.BulkNames{Count: 2}, "name", "Write a counter as {n}, or as {nn} for"},
		{"web-{n}{x}", vmedit.BulkNames{Count: 2}, "name", "Write a counter as {n}, or as {nn} for"},
		{"{{n}}", vmedit.BulkNames{}, "name", "Write a counter as {n}, or as {nn} for"},
		{"", vmedit.BulkNames{}, "name", "Enter a name"},
		{"", vmedit.BulkNames{Count: 2}, "name", "VMs need a counter in their name:"},
		{"Web-{n}", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		{"-{n}", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		{"web-{n}-", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		{"a;id-{n}", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		{"web {n}", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		{"../{n}", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		{"w\u202e{n}", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		{"w\x00{n}", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		{strings.Repeat("a", 60) + "-{n}", vmedit.BulkNames{Count: 90}, "name", ""},
		{strings.Repeat("a", 62) + "-{n}", vmedit.BulkNames{Count: 2}, "name", "lower-case"},
		// Only the last of these names is too long.
		{strings.Repeat("a", 61) + "-{n}", vmedit.BulkNames{Count: 2, First: 9}, "name", "lower-case"},
		{"{" + strings.Repeat("n", 70) + "}", vmedit.BulkNames{}, "name", "lower-case"},
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
