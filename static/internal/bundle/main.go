// Command bundle generates static/bundle: minified style sheets, and the modules that pages load, bundled with their
// imports. Modules that several bundles import are in shared files, so that a page loads each module once. The output
// is committed, and a test compares it with the sources.
//
//	go run ./static/internal/bundle     # in the root of the repository
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"quantix/static/internal/sources"
)

const (
	root    = "static"
	esbuild = "github.com/evanw/esbuild/cmd/esbuild@v0.28.2"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run() error {
	sum, err := sources.HashSources(os.DirFS(root))
	if err != nil {
		return fmt.Errorf("run this in the repository's root: %w", err)
	}
	out := filepath.Join(root, "bundle")
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	cmd := exec.Command("go", "run", esbuild, "js/app.js", "js/charts.js", "js/console.js", "js/live-worker.js", "js/theme.js", "js/upload.js", "app.css", "charts.css", "vm.css", "console.css", "gate.css", "help.css", "spark.css", "alarm.css", "topology.css", "uploads.css",
		"--bundle", "--splitting", "--format=esm", "--minify", "--target=es2022", "--legal-comments=none", "--external:../vendor/*",
		"--entry-names=[name]", "--chunk-names=shared-[hash]", "--outdir=bundle")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run esbuild: %w", err)
	}
	return os.WriteFile(filepath.Join(out, "SOURCES"), []byte(sum+"\n"), 0o644)
}
