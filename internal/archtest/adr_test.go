package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	adrDir      = "../adr"
	maxADRLines = 40  // counted from the first section
	maxADRWidth = 120 // columns
)

var (
	adrTitle  = regexp.MustCompile(`\A# (\d+)\. (.+)\n`)
	adrSlug   = regexp.MustCompile(`[^a-z0-9]+`)
	adrNumber = regexp.MustCompile(`\bADR (\d+)`)
	adrStatus = regexp.MustCompile(`\A.+\n\nStatus: (.+)\.\n\n## Context\n`)
	adrRemark = regexp.MustCompile(` \([^)]*\)|ADR `)
	mdLink    = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
)

// TestDecisionRecordsHaveStandardForm checks title, file name, status, sections and size of each decision record, and
// that its row in the index shows its status, without the remarks in parentheses.
func TestDecisionRecordsHaveStandardForm(t *testing.T) {
	t.Parallel()
	index := readFile(t, filepath.Join(adrDir, "README.md"))
	files, err := filepath.Glob(filepath.Join(adrDir, "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decision records in %s: %v", adrDir, err)
	}
	for _, path := range files {
		file, text := filepath.Base(path), readFile(t, path)
		title := adrTitle.FindStringSubmatch(text)
		if title == nil {
			t.Errorf("%s does not begin with a title such as \"# 7. The decision\"", file)
			continue
		}
		slug := strings.Trim(adrSlug.ReplaceAllString(strings.ToLower(strings.ReplaceAll(title[2], "'", "")), "-"), "-")
		number, _ := strconv.Atoi(title[1])
		if want := fmt.Sprintf("%04d-%s.md", number, slug); file != want {
			t.Errorf("%s does not match its title: rename it to %s", file, want)
		}
		status := adrStatus.FindStringSubmatch(text)
		if status == nil {
			t.Errorf("%s has no line such as \"Status: accepted.\" between its title and its first section", file)
			continue
		}
		row := fmt.Sprintf("| %s | [%s](%s) | %s |\n", title[1], title[2], file, adrRemark.ReplaceAllString(status[1], ""))
		if strings.Count(index, row) != 1 {
			t.Errorf("the index has no row, or several: %s", row)
		}
		_, body, _ := strings.Cut(text, "\n## Context\n")
		_, decision, ok := strings.Cut(body, "\n## Decision\n")
		if !ok || strings.Count(decision, "\n## Consequences\n") != 1 || strings.Count(text, "\n## ") != 3 {
			t.Errorf("%s has other sections than Context, Decision and Consequences", file)
		}
		if n := strings.Count(body, "\n") + 1; n > maxADRLines {
			t.Errorf("%s has %d lines from its first section on, more than %d", file, n, maxADRLines)
		}
		for i, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > maxADRWidth {
				t.Errorf("%s:%d is longer than %d columns", file, i+1, maxADRWidth)
			}
		}
	}
	for _, path := range append(files, filepath.Join(adrDir, "README.md")) {
		for _, other := range adrNumber.FindAllStringSubmatch(readFile(t, path), -1) {
			if !strings.Contains(index, "| "+other[1]+" | [") {
				t.Errorf("%s names ADR %s, which does not exist", filepath.Base(path), other[1])
			}
		}
		for _, link := range mdLink.FindAllStringSubmatch(readFile(t, path), -1) {
			if _, err := os.Stat(filepath.Join(adrDir, link[1])); err != nil && !strings.Contains(link[1], "://") {
				t.Errorf("%s links to %s, which does not exist", filepath.Base(path), link[1])
			}
		}
	}
	if rows := strings.Count(index, "](0"); rows != len(files) {
		t.Errorf("the index has %d rows for %d decision records", rows, len(files))
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
