// Package sources lists the source files of static/bundle.
package sources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
)

// HashSources returns a hash of all files below static that the bundle may be generated from.
func HashSources(static fs.FS) (string, error) {
	names, err := fs.Glob(static, "js/*.js")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range append(names, "app.css", "charts.css", "vm.css", "console.css", "gate.css", "help.css", "spark.css", "alarm.css", "topology.css", "uploads.css") {
		content, err := fs.ReadFile(static, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
