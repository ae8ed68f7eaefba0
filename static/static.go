// Package static embeds and serves the assets of pages: style sheets, scripts, icons, vendored libraries.
//
// The sources are the .css files and js. go run ./static/internal/bundle minifies them into bundle.
//
// The paths of all files contain one hash of the whole tree (/static/<hash>/bundle/app.js). So relative imports between
// ES modules stay inside one version, and browsers may cache every file forever.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// Prefix is the URL path under which Handler must be mounted. Requests must reach Handler with Prefix in their path.
const Prefix = "/static/"

//go:embed icons.svg mark.svg app.css js bundle/*.css bundle/*.js vendor
var assetFiles embed.FS

var (
	assets = loadAssets(assetFiles)
	base   = Prefix + assetsHash(assets) + "/"
	icons  = symbolIDs(assets["icons.svg"].plain)
)

// Path returns the URL of an asset, such as "app.css" or "vendor/novnc/core/rfb.js". It panics if the file does not
// exist: the name is a constant in a template, and a test renders that template.
func Path(name string) string {
	if _, ok := assets[name]; !ok {
		panic(fmt.Sprintf("static: there is no file %q", name))
	}
	return base + name
}

// IconURL returns the URL for the href of an SVG <use> element, such as "/static/<hash>/icons.svg#server". It panics if
// vendor.json lists no such icon.
func IconURL(icon string) string {
	if !icons[icon] {
		panic(fmt.Sprintf("static: there is no icon %q; add it to vendor.json and run the vendor task", icon))
	}
	return base + "icons.svg#" + icon
}

func loadAssets(tree fs.FS) map[string]*asset {
	found := map[string]*asset{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		found[name] = newAsset(name, content)
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("static: read the embedded files: %v", err))
	}
	return found
}

func assetsHash(assets map[string]*asset) string {
	sum := sha256.New()
	for _, name := range sortedNames(assets) {
		fmt.Fprintf(sum, "%s %d\n", name, len(assets[name].plain))
		sum.Write(assets[name].plain)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

var symbolID = regexp.MustCompile(`<symbol id="([^"]+)"`)

func symbolIDs(sprite []byte) map[string]bool {
	ids := map[string]bool{}
	for _, match := range symbolID.FindAllStringSubmatch(string(sprite), -1) {
		ids[strings.TrimSpace(match[1])] = true
	}
	return ids
}
