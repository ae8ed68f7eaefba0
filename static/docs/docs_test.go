package docs_test

import (
	"encoding/json"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quantix/static/docs"
)

const repositoryRoot = "../.."

// allChapters returns the table of contents and all chapters.
func allChapters() []*docs.Chapter {
	out := []*docs.Chapter{docs.Open().Index}
	for _, g := range docs.Open().Groups {
		out = append(out, g.Chapters...)
	}
	return out
}

func TestManualTableOfContentsListsEveryChapter(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{"README": true}
	for _, c := range allChapters() {
		listed[c.Name] = true
	}
	names, err := filepath.Glob("*.md")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		if !listed[strings.TrimSuffix(name, ".md")] {
			t.Errorf("README.md does not list %s", name)
		}
	}
}

var regionLabel = regexp.MustCompile(`role="region" aria-label="([^"]*)"`)

func TestChaptersHaveNoHTMLOrStyles(t *testing.T) {
	t.Parallel()
	for _, c := range allChapters() {
		for _, bad := range []string{"raw HTML omitted", "<script", "style=", "javascript:"} {
			if strings.Contains(c.HTML, bad) {
				t.Errorf("%s: its page has %q", c.Title, bad)
			}
		}
		anchors := map[string]bool{}
		for _, s := range c.Headings() {
			if anchors[s.Anchor] || s.Anchor == "" {
				t.Errorf("%s: the heading %q has the anchor %q, which is empty or not unique", c.Title, s.Title, s.Anchor)
			}
			anchors[s.Anchor] = true
		}
		regions := map[string]bool{}
		for _, m := range regionLabel.FindAllStringSubmatch(c.HTML, -1) {
			if regions[m[1]] {
				t.Errorf("%s: two tables have the label %q", c.Title, m[1])
			}
			regions[m[1]] = true
		}
	}
}

// linkTargetExists reports whether the manual has the chapter and the heading that a link names.
func linkTargetExists(link string) bool {
	path, anchor, _ := strings.Cut(link, "#")
	if _, ok := docs.File(strings.TrimPrefix(path, "/help/")); ok && anchor == "" {
		return true
	}
	c, ok := docs.Open().Index, path == "/help"
	if name, below := strings.CutPrefix(path, "/help/"); below {
		c, ok = docs.Open().Chapter(name)
	}
	return ok && (anchor == "" || slices.ContainsFunc(c.Headings(), func(s docs.Section) bool { return s.Anchor == anchor }))
}

var hrefPattern = regexp.MustCompile(`href="([^"]*)"`)

func TestManualLinksHaveTargets(t *testing.T) {
	t.Parallel()
	for _, c := range allChapters() {
		for _, m := range hrefPattern.FindAllStringSubmatch(c.HTML, -1) {
			link := html.UnescapeString(m[1])
			if strings.HasPrefix(link, "https://") {
				continue
			}
			if strings.HasPrefix(link, "#") {
				link = strings.TrimSuffix("/help/"+c.Name, "/") + link
			}
			if !linkTargetExists(link) {
				t.Errorf("%s: the link %s has no target", c.Title, link)
			}
		}
	}
}

var manualLink = regexp.MustCompile(`\(static/docs/([a-z-]+)\.md(#[^)]*)?\)`)

// TestReadmeLinksIntoTheManualHaveTargets checks that the links of the repository's README lead to chapters and
// headings.
func TestReadmeLinksIntoTheManualHaveTargets(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repositoryRoot, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := manualLink.FindAllStringSubmatch(string(text), -1)
	if len(links) < 20 {
		t.Fatalf("%d links were found", len(links))
	}
	for _, m := range links {
		if !linkTargetExists("/help/" + m[1] + m[2]) {
			t.Errorf("README: the link %s has no target", m[0])
		}
	}
}

// sourceText returns the text of all files below the directories for which match returns true.
func sourceText(t *testing.T, match func(name string) bool, dirs ...string) string {
	t.Helper()
	var out strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(repositoryRoot, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !match(path) {
				return err
			}
			text, err := os.ReadFile(path)
			out.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

var emphasisPattern = regexp.MustCompile(`<em>(.*?)</em>`)

// isWholeLabel reports whether a string literal or an HTML element in text consists of the label only. A label that
// ends with " …" matches the beginning.
func isWholeLabel(text, label string) bool {
	label, open := strings.CutSuffix(label, " …")
	for {
		at := strings.Index(text, label)
		if at < 1 {
			return false
		}
		before, after := text[at-1], text[at+len(label):]
		if strings.IndexByte("\"`>\t", before) >= 0 && (open || after == "" || strings.IndexByte("\"`<\n{", after[0]) >= 0) {
			return true
		}
		text = after
	}
}

// TestLabelsInTheManualAreOnThePages checks that all words in italics are labels on pages. If a label changes, the
// manual must change, too.
func TestLabelsInTheManualAreOnThePages(t *testing.T) {
	t.Parallel()
	pages := sourceText(t, func(name string) bool {
		return strings.HasSuffix(name, ".templ") || strings.HasSuffix(name, ".js") ||
			strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_templ.go") && !strings.HasSuffix(name, "_test.go")
	}, "views", "internal/fleet", "internal/vmedit", "internal/control", "web", "static/js")
	for _, c := range allChapters() {
		for _, m := range emphasisPattern.FindAllStringSubmatch(c.HTML, -1) {
			if label := html.UnescapeString(m[1]); !isWholeLabel(pages, label) {
				t.Errorf("%s: no page has the label %q", c.Title, label)
			}
		}
	}
}

var apiPathPattern = regexp.MustCompile(`(?:\b(GET|POST|PUT|PATCH|DELETE) |-X (\w+) [^\n]*|\$PORTAL"?)?(/api/v1/[A-Za-z0-9{}$./_-]*[A-Za-z0-9}])`)

// TestAPIPathsOfTheManualExist checks that the API's description has the paths in the manual, with their methods if the
// manual names them.
func TestAPIPathsOfTheManualExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repositoryRoot, "web/testdata/api.json"))
	if err != nil {
		t.Fatal(err)
	}
	var described map[string]json.RawMessage
	if err := json.Unmarshal(text, &described); err != nil {
		t.Fatal(err)
	}
	open := regexp.MustCompile(`\{[a-z]+\}|\$[A-Z]+`)
	known := map[string]bool{"/api/v1": true, "/api/v1/openapi.json": true}
	for name := range described {
		if method, path, ok := strings.Cut(name, " "); ok {
			path = open.ReplaceAllString(path, "*")
			known[path], known[method+" "+path] = true, true
		}
	}
	for _, path := range []string{"/api/v1/pools/*/uploads", "/api/v1/pools/*/volumes/*/content", "/api/v1/pools/*/uploads/image.qcow2"} { // routes of package web that the description does not contain
		known[path], known["POST "+path] = true, true
	}
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range apiPathPattern.FindAllStringSubmatch(string(text), -1) {
			path := open.ReplaceAllString(m[3], "*")
			if m[1] != "" {
				path = m[1] + " " + path
			}
			if !known[path] {
				t.Errorf("%s: the API has no %s", name, path)
			}
		}
	}
}

var topicPattern = regexp.MustCompile(`Topic = "([^"]*)"`)

// TestHelpTopicsOfFormsExist checks that the help link of each form section leads to a heading of the manual.
func TestHelpTopicsOfFormsExist(t *testing.T) {
	t.Parallel()
	topics := topicPattern.FindAllStringSubmatch(sourceText(t, func(name string) bool { return strings.HasSuffix(name, ".go") }, "views"), -1)
	if len(topics) < 10 {
		t.Fatalf("%d topics were found", len(topics))
	}
	for _, m := range topics {
		if !linkTargetExists("/help/"+m[1]) || !strings.Contains(m[1], "#") {
			t.Errorf("the topic %s has no target", m[1])
		}
	}
}

// TestManualSearchFindsAnswers checks that the section with the answer is among the first three results of a question.
func TestManualSearchFindsAnswers(t *testing.T) {
	t.Parallel()
	for question, answer := range map[string]string{
		"add a host":                         "install#add-a-host",
		"how do I add an NFS pool?":          "storage#kinds-of-pools",
		"reset password":                     "install#reset-a-lost-password",
		"vMotion":                            "coming-from-vcenter#terms",
		"restore the portal":                 "upgrade-backup-restore#restore-the-portal",
		"snapshot schedule":                  "snapshots#schedules",
		"import ova":                         "import-export#import-an-ova-archive-or-a-foreign-disk",
		"transferPorts":                      "configuration#agent",
		"cloud-init ssh key":                 "first-boot#give-a-user-a-key-and-a-static-address",
		"API token":                          "tenants#create-an-api-token",
		"haproxy":                            "several-portals#haproxy",
		"nginx":                              "several-portals#nginx",
		"clone a running VM":                 "images#clone-a-running-vm",
		"rate limit of a NIC":                "networks#rate-limits",
		"keep two VMs apart":                 "virtual-machines#placement-rules",
		"how is a disk moved to other pool?": "virtual-machines#move-a-disk-to-another-pool",
		"prometheus metrics":                 "monitoring#prometheus-and-grafana",
		"which ports must be open":           "install#ports",
		"ports firewall":                     "install#ports",
		"portal died":                        "upgrade-backup-restore#restore-the-portal",
		"rights of a colleague":              "tenants#permissions",
		"two-factor login":                   "tenants#sign-in-rules",
		"grafana":                            "monitoring#prometheus-and-grafana",
		"reboot required":                    "virtual-machines#states",
		"maintenance of a host":              "migration#leave-maintenance",
	} {
		var got []string
		for _, h := range docs.Open().Search(question, 3) {
			got = append(got, h.Chapter.Name+"#"+h.Section.Anchor)
		}
		if !slices.Contains(got, answer) {
			t.Errorf("%q finds %v, want %s among them", question, got, answer)
		}
	}
	if hits := docs.Open().Search("xyzzy plugh", 3); len(hits) > 0 {
		t.Errorf("a query of unknown words finds %v", hits)
	}
	if hits := docs.Open().Search(" ? ", 3); len(hits) > 0 {
		t.Errorf("a query without words finds %v", hits)
	}
}
