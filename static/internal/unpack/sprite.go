package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	svgInside  = regexp.MustCompile(`(?s)<svg[^>]*>(.*)</svg>`)
	betweenTag = regexp.MustCompile(`>\s+<`)
)

// writeSprite writes icons.svg: one symbol for each icon under lucide's name, and the product's logo as "quantix".
// Stroke and fill come from the svg.i rule in app.css, because styles are inherited into a <use>.
func writeSprite(content map[string][]byte, icons []string) error {
	var sprite strings.Builder
	sprite.WriteString("<svg xmlns=\"http://www.w3.org/2000/svg\">\n")
	mark, err := os.ReadFile(filepath.Join(staticFolder, "mark.svg"))
	if err != nil {
		return err
	}
	if err := addSymbol(&sprite, "quantix", "0 0 20 20", mark); err != nil {
		return err
	}
	for _, icon := range slices.Sorted(slices.Values(icons)) {
		svg, ok := content["icons/"+icon+".svg"]
		if !ok {
			return fmt.Errorf("lucide has no icon %q", icon)
		}
		if err := addSymbol(&sprite, icon, "0 0 24 24", svg); err != nil {
			return err
		}
	}
	sprite.WriteString("</svg>\n")
	return writeFile(filepath.Join(staticFolder, "icons.svg"), []byte(sprite.String()))
}

func addSymbol(sprite *strings.Builder, id, viewBox string, svg []byte) error {
	inside := svgInside.FindSubmatch(svg)
	if inside == nil {
		return fmt.Errorf("icon %q is not an SVG", id)
	}
	shapes := strings.TrimSpace(betweenTag.ReplaceAllString(string(inside[1]), "><"))
	fmt.Fprintf(sprite, "<symbol id=%q viewBox=%q>%s</symbol>\n", id, viewBox, shapes)
	return nil
}
