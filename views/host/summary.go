package host

import (
	"strings"

	"quantix/internal/fleet"
)

func acceleratorName(word string) string {
	switch word {
	case "kvm":
		return "KVM"
	case "qemu":
		return "emulation (TCG)"
	}
	return word
}

func firmwareText(all []fleet.Firmware) string {
	words := make([]string, len(all))
	for i, f := range all {
		words[i] = strings.ToUpper(string(f))
	}
	return strings.Join(words, ", ")
}
