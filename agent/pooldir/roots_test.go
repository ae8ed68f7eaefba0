package pooldir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

func TestPoolsOutsideRootsAreRefused(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(p string) string { return filepath.Join(dir, p) }
	for _, d := range []string{"srv/vm", "srv/own/quantix", "etc/secrets", "disk/pools", "srv2"} {
		if err := os.MkdirAll(at(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("srv/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"srv/inside": "vm", "srv/outside": at("etc/secrets"), "srv/up": "../etc", "srv/vm/deep": "../outside", "srv/dangling": at("srv/later"),
		"srv/danglingOut": at("etc/later"), "srv/loop": "loop", "mnt": "disk/pools", "srv/there-and-back": at("etc/../srv/vm"),
	} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	roots := pooldir.PoolRoots{Allowed: []string{at("srv"), at("mnt/"), at("not-there-yet")}, Forbidden: []string{at("srv/own/quantix")}}
	for p, want := range map[string]string{
		"srv":                    "stores its own files", // the root contains Quantix's files
		"srv/vm":                 "",
		"srv/vm/new/below":       "",
		"srv/inside":             "",
		"srv/inside/new":         "",
		"srv/there-and-back":     "",
		"srv/file/pool":          "", // libvirt reports the error
		"mnt":                    "", // a root that is a link is resolved
		"mnt/a":                  "",
		"disk/pools/a":           "",
		"not-there-yet":          "",
		"not-there-yet/a":        "",
		"srv2":                   "allows pools in",
		"disk":                   "allows pools in",
		"etc/secrets":            "allows pools in",
		"srv/outside":            "which resolves to " + at("etc/secrets"),
		"srv/outside/new":        "which resolves to " + at("etc/secrets/new"),
		"srv/up/secrets":         "which resolves to " + at("etc/secrets"),
		"srv/vm/deep":            "which resolves to " + at("etc/secrets"),
		"srv/vm/../../etc":       "allows pools in",
		"srv/dangling":           "which does not exist",
		"srv/dangling/new":       "which does not exist",
		"srv/danglingOut":        "which does not exist",
		"srv/loop":               "too many",
		"srv/own/quantix":        "stores its own files",
		"srv/own/quantix/images": "stores its own files",
		"srv/own":                "stores its own files",
		"srv/own/quantix2":       "",
	} {
		err := roots.CheckDir(dir + "/" + p)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", p, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want a refusal with %q", p, err, want)
		}
	}
	if err := roots.CheckDir("srv/vm"); fleet.CodeOf(err) != fleet.Invalid {
		t.Errorf("a relative path: %v", err)
	}
	if err := (pooldir.PoolRoots{}).CheckDir("/srv/vm"); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("no roots at all: %v", err)
	}
}
