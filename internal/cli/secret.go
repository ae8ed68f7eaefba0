package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// readSecret reads one line of at most 4 KiB from a file, or from stdin where path is "-".
func readSecret(path string, stdin io.Reader) (string, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("read the secret: %w", err)
		}
		defer f.Close()
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, 4096))
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line), nil
}
