package fetch

import (
	"encoding/hex"
	"strings"

	"quantix/internal/fleet"
)

// maxChecksumFile is the maximum size of a checksum file, in bytes.
const maxChecksumFile = 1 << 20

// FindChecksum returns the checksum of the named file in a checksum file, as "sha256:…" or "sha512:…"; SHA-512 is
// preferred. It reads lines of coreutils ("<digits>  name", "<digits> *name"), of BSD ("SHA256 (name) = <digits>"), or
// the digits of one file alone. Signatures are skipped and not verified.
func FindChecksum(text, name string) (string, error) {
	found := map[string]string{}
	var alone []string // checksums on lines without a file name
	lines := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		lines++
		of, algorithm, digest := checksumLine(line)
		switch {
		case digest == "":
		case of == "":
			alone = append(alone, algorithm+":"+digest)
		case strings.TrimPrefix(of, "./") == name:
			if was := found[algorithm]; was != "" && was != digest {
				return "", fleet.Errorf(fleet.Conflict, "The checksum file has two different checksums for %s, so the right one is unknown.", name)
			}
			found[algorithm] = digest
		}
	}
	if lines == 1 && len(alone) == 1 {
		return alone[0], nil
	}
	for _, algorithm := range []string{"sha512", "sha256"} {
		if digest := found[algorithm]; digest != "" {
			return algorithm + ":" + digest, nil
		}
	}
	return "", fleet.Errorf(fleet.Conflict, "The checksum file has no SHA-256 or SHA-512 of %s. Check both addresses.", name)
}

// checksumLine parses one line of a checksum file. digest is empty if the line has no known digest, name if it names no
// file.
func checksumLine(line string) (name, algorithm, digest string) {
	if word, rest, ok := strings.Cut(line, " ("); ok && !strings.Contains(word, " ") {
		algorithm = strings.ReplaceAll(strings.ToLower(word), "-", "")
		end := strings.LastIndex(rest, ") = ")
		if digits, known := digests[algorithm]; known && end > 0 {
			if digest = strings.ToLower(strings.TrimSpace(rest[end+len(") = "):])); isDigest(digest, digits) {
				return rest[:end], algorithm, digest
			}
		}
		return "", "", ""
	}
	digest, name, _ = strings.Cut(line, " ")
	digest = strings.ToLower(digest)
	for a, digits := range digests {
		if isDigest(digest, digits) {
			return strings.TrimPrefix(strings.TrimLeft(name, " "), "*"), a, digest
		}
	}
	return "", "", ""
}

// digests are the algorithms of checksum files with their length in hexadecimal digits.
var digests = map[string]int{"sha256": 64, "sha512": 128}

func isDigest(text string, digits int) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == digits
}
