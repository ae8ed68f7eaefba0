package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

const (
	verifyTimeout = 10 * time.Second
	inputPath     = "/proc/self/fd/3"
)

// VerifyWithQemuImg inspects an open file with qemu-img, as an unprivileged user with low limits. It returns an error
// if qemu-img reports other facts or a reference to another file.
func VerifyWithQemuImg(ctx context.Context, file *os.File, f Facts) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	limits := []string{"--as=1073741824", "--cpu=10", "--nofile=64", "--core=0", "--fsize=0"}
	call, err := newQemuImgCall(ctx, limits, "info", "-U", "--output=json", "-f", f.Format, inputPath)
	if err != nil {
		return err
	}
	var out limitedOutput
	call.Stdout, call.ExtraFiles = &out, []*os.File{file}
	revoke, err := runAsNobody(call.Cmd, file)
	if err != nil {
		return err
	}
	err = errors.Join(call.run(ctx), revoke())
	switch {
	case ctx.Err() != nil:
		return untrustedImageError("qemu-img did not finish within %s.", verifyTimeout)
	case err != nil:
		return untrustedImageError("qemu-img does not accept it as a %s image: %s", f.Format, err)
	}
	return checkQemuImgAgrees(out.Bytes(), f)
}

func untrustedImageError(format string, args ...any) error {
	return fleet.Errorf(fleet.Invalid, "The file is refused: "+format, args...)
}

// checkQemuImgAgrees returns an error if qemu-img's output contradicts the facts.
func checkQemuImgAgrees(text []byte, f Facts) error {
	var info map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&info); err != nil {
		return fmt.Errorf("read the output of qemu-img: %w", err)
	}
	if name := referencedFile(info); name != "" {
		return untrustedImageError("qemu-img finds that it refers to another file, %q.", name)
	}
	if info["format"] != f.Format {
		return untrustedImageError("qemu-img detects the format %v, but its header says %s.", info["format"], f.Format)
	}
	size := f.Size
	if f.Format == "raw" {
		size = (size + 511) / 512 * 512
	}
	// a VHD header (vpc) may record less than the real size
	if number, _ := info["virtual-size"].(json.Number); number.String() != strconv.FormatInt(size, 10) && f.Format != "vpc" {
		return untrustedImageError("qemu-img reports a size of %v bytes, but its header says %d.", info["virtual-size"], size)
	}
	if crypt, _ := info["encrypted"].(bool); crypt {
		return untrustedImageError("qemu-img finds that it is encrypted.")
	}
	return nil
}

// referencedFile returns the name of another file anywhere in the value; empty: there is none.
func referencedFile(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v {
			text, isText := below.(string)
			switch {
			case isText && strings.Contains(key, "filename") && !isInspectedFileName(text), isText && key == "data-file":
				return text
			}
			if name := referencedFile(below); name != "" {
				return name
			}
		}
	case []any:
		for _, below := range v {
			if name := referencedFile(below); name != "" {
				return name
			}
		}
	}
	return ""
}

// isInspectedFileName reports whether name is the inspected file's or only a protocol option.
func isInspectedFileName(name string) bool {
	graphJSON, isGraph := strings.CutPrefix(name, "json:")
	if !isGraph {
		return name == inputPath
	}
	var node any
	return json.Unmarshal([]byte(graphJSON), &node) == nil && referencedFile(node) == ""
}
