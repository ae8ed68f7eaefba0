// Command unpack fetches the vendored libraries of static/ from npm: it downloads each package that static/vendor.json
// pins, unpacks the files listed there, and generates the icon sprite. The output is committed, so only a change of
// vendor.json needs npm or the network.
//
//	go run ./static/internal/unpack     # in the root of the repository
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const staticFolder = "static"

// vendoredPackage is one entry of vendor.json. Take maps files of the package to their new names below Into. A name
// that ends in a slash means the whole folder.
type vendoredPackage struct {
	NPM     string            `json:"npm"`
	Version string            `json:"version"`
	Into    string            `json:"into"`
	Take    map[string]string `json:"take"`
	Icons   []string          `json:"icons"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vendor:", err)
		os.Exit(1)
	}
}

func run() error {
	text, err := os.ReadFile(filepath.Join(staticFolder, "vendor.json"))
	if err != nil {
		return fmt.Errorf("run this in the repository's root: %w", err)
	}
	var list struct {
		Packages []vendoredPackage `json:"packages"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read vendor.json: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(staticFolder, "vendor")); err != nil {
		return err
	}
	for _, p := range list.Packages {
		if err := p.install(); err != nil {
			return fmt.Errorf("%s@%s: %w", p.NPM, p.Version, err)
		}
		fmt.Printf("%s@%s -> %s\n", p.NPM, p.Version, filepath.Join(staticFolder, p.Into))
	}
	return nil
}

func (p vendoredPackage) install() error {
	temp, err := os.MkdirTemp("", "quantix-vendor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	content, err := fetchPackage(temp, p.NPM+"@"+p.Version)
	if err != nil {
		return err
	}
	for from, to := range p.Take {
		if err := copyFiles(content, from, filepath.Join(staticFolder, p.Into, filepath.FromSlash(to))); err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
	}
	if len(p.Icons) == 0 {
		return nil
	}
	return writeSprite(content, p.Icons)
}

// fetchPackage downloads one npm package and returns its files by their path inside the package.
func fetchPackage(temp, spec string) (map[string][]byte, error) {
	command := exec.Command("npm", "pack", "--silent", spec)
	command.Dir = temp
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("npm pack: %w", err)
	}
	return readTarball(filepath.Join(temp, strings.TrimSpace(string(output))))
}

// copyFiles writes one file of a package, or every .js and license file of a folder of the package.
func copyFiles(content map[string][]byte, from, to string) error {
	if !strings.HasSuffix(from, "/") {
		data, ok := content[from]
		if !ok {
			return fmt.Errorf("the package has no such file")
		}
		return writeFile(to, data)
	}
	taken := 0
	for name, data := range content {
		rest, ok := strings.CutPrefix(name, from)
		if !ok || (!strings.HasSuffix(name, ".js") && !strings.Contains(name, "LICENSE")) {
			continue
		}
		if err := writeFile(filepath.Join(to, filepath.FromSlash(rest)), data); err != nil {
			return err
		}
		taken++
	}
	if taken == 0 {
		return fmt.Errorf("the folder is not in the package, or has no .js and license files")
	}
	return nil
}

func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}
