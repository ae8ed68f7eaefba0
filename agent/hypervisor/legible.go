package hypervisor

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"quantix/internal/fleet"
)

// EscapeInvalidText escapes each byte that is not UTF-8 and each character not allowed in XML, such as "\xff". File
// names may contain any bytes, which libvirt passes on unchanged.
func EscapeInvalidText(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, isIllegalInXML) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case isIllegalInXML(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

// isIllegalInXML reports whether XML disallows the character.
func isIllegalInXML(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

// InvalidVolumeNameText is the fault of a volume whose name is not valid text.
const InvalidVolumeNameText = "The volume's name is not UTF-8 text, so Quantix cannot use the volume. Rename the file on the host."

// SummarizeFaultyVolumes summarizes the faulty volumes of a pool. It is empty if there are none.
func SummarizeFaultyVolumes(volumes []fleet.Volume) string {
	var first *fleet.Volume
	n := 0
	for i := range volumes {
		if volumes[i].Fault != "" {
			if n++; first == nil {
				first = &volumes[i]
			}
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("The volume %s cannot be used. %s", first.Name, first.Fault)
	}
	return fmt.Sprintf("%d volumes cannot be used, the first of them %s. %s", n, first.Name, first.Fault)
}

// UnreadableDomainFault returns the fault of a domain whose definition cannot be parsed.
func UnreadableDomainFault(why error) fleet.Fault {
	return fleet.Fault{Code: fleet.FaultUnread, Text: fmt.Sprintf("The host cannot read the VM's definition, so the VM's hardware is unknown: %s. Check the definition with virsh dumpxml on the host.", why)}
}
