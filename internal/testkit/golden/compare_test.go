package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoldenFileRefusesRemovedOrRetypedFields(t *testing.T) {
	t.Parallel()
	const was = `{"VM": {"name": "web", "cpus": 1, "load": 1.5, "on": true, "at": "2026-01-02T03:04:05Z", "take": "any JSON",
		"disks": [{"size": 1}, {"pool": "p"}], "labels": {"a": "b"}, "none": null}}`
	for name, c := range map[string]struct{ old, new, lost string }{
		"no change":          {"", "", ""},
		"a name is added":    {`"cpus"`, `"vcpus": 1, "cpus"`, ""},
		"a value differs":    {`"web"`, `"db"`, ""},
		"null gets a value":  {"null", "1", ""},
		"a name was removed": {`"cpus": 1,`, ``, "VM.cpus was removed"},
		"a name was changed": {`"name"`, `"title"`, "VM.name was removed"},
		"a type was removed": {`"VM"`, `"Machine"`, "VM was removed"},
		"in a list":          {`{"size": 1}, `, ``, "VM.disks[].size was removed"},
		"an empty list":      {`{"size": 1}, {"pool": "p"}`, ``, "VM.disks[] was an object and is nothing"},
		"in a nested object": {`"a"`, `"c"`, "VM.labels.a was removed"},
		"an integer":         {"1,", "1.5,", "VM.cpus was an integer and is a number"},
		"a number":           {"1.5", `"1.5"`, "VM.load was a number and is a text"},
		"a boolean":          {"true", `"true"`, "VM.on was a boolean and is a text"},
		"a time":             {`"2026-01-02T03:04:05Z"`, `"now"`, "VM.at was a time and is a text"},
		"any JSON":           {`"any JSON"`, `"text"`, "VM.take was any JSON and is a text"},
		"a text, now a list": {`"web"`, `["web"]`, "VM.name was a text and is an array"},
		"a list, now one":    {`[{"size": 1}, {"pool": "p"}]`, `{"size": 1, "pool": "p"}`, "VM.disks was an array and is an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "golden.json")
			if err := compareWithFile(file, []byte(was), true); err != nil {
				t.Fatal(err)
			}
			now := strings.Replace(was, c.old, c.new, 1)
			for _, write := range []bool{false, true} {
				err := compareWithFile(file, []byte(now), write)
				lacks := c.lost != "" && (err == nil || !strings.HasSuffix(err.Error(), "\n\t"+c.lost))
				if lacks || (err != nil) != (c.lost != "" || !write && now != was) {
					t.Errorf("written: %v: %v, want %q", write, err, c.lost)
				}
			}
			kept, err := os.ReadFile(file)
			if want := map[bool]string{true: now, false: was}[c.lost == ""]; err != nil || string(kept) != want {
				t.Errorf("the file is %s, %v", kept, err)
			}
		})
	}
}

func TestMissingGoldenFileFails(t *testing.T) {
	t.Parallel()
	if err := compareWithFile(filepath.Join(t.TempDir(), "golden.json"), []byte("{}"), false); err == nil {
		t.Error("a file that is missing passes")
	}
}
