package release

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

var semanticVersion = regexp.MustCompile(`^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$`)

// Compare compares two semantic versions, such as 1.2.0 and 1.3.0-rc.1: negative if a is older than b. ok is false if one
// of them is not a semantic version, such as that of a development build.
func Compare(a, b string) (order int, ok bool) {
	x, y := semanticVersion.FindStringSubmatch(a), semanticVersion.FindStringSubmatch(b)
	if x == nil || y == nil {
		return 0, false
	}
	for i := 1; i <= 3; i++ {
		m, _ := strconv.Atoi(x[i]) // the pattern allows only digits
		n, _ := strconv.Atoi(y[i])
		if order := cmp.Compare(m, n); order != 0 {
			return order, true
		}
	}
	return comparePrereleases(x[4], y[4]), true
}

// comparePrereleases compares the parts after the hyphen. A version without such a part is newer.
func comparePrereleases(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(b, a)
	}
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, wrongM := strconv.Atoi(x[i])
		n, wrongN := strconv.Atoi(y[i])
		order := cmp.Compare(x[i], y[i])
		switch {
		case wrongM == nil && wrongN == nil:
			order = cmp.Compare(m, n)
		case wrongM == nil:
			order = -1
		case wrongN == nil:
			order = 1
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(x), len(y))
}

// VersionRefusal returns why an agent does not change from the running version to another one, as a sentence; empty: it
// does. Versions that cannot be compared, such as those of development builds, count as a downgrade.
func VersionRefusal(running, wanted string, allowDowngrade bool) string {
	order, ok := Compare(wanted, running)
	switch {
	case wanted == running:
		return "The agent runs version " + running + " already."
	case allowDowngrade:
		return ""
	case !ok:
		return "The versions " + running + " and " + wanted + " cannot be compared. Allow a downgrade to install it."
	case order < 0:
		return "Version " + wanted + " is older than the running version " + running + ". Allow a downgrade to install it."
	}
	return ""
}
