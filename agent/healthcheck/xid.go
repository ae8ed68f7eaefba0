package healthcheck

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// xidPattern matches the lines of all driver generations:
//
//	NVRM: Xid (0000:03:00): 13, 0003 00000000 …                        up to 2012
//	NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.
//	NVRM: Xid (PCI:0000:c1:00): 31, pid=12345, name=python, Ch 00000010 …
//	nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 …
//
// The line must begin with it, because other drivers may write text of guests behind their own prefix.
var xidPattern = regexp.MustCompile(`^(?:NVRM: |nvidia-nvswitch[0-9]*: )(S?)Xid \((?:PCI:)?([0-9a-fA-F:.]{5,16})\): ([0-9]{1,6})(?:, ?(.*))?$`)

// timePrefix is what dmesg and syslog put before a line.
var timePrefix = regexp.MustCompile(`^(?:<[0-9]+>)?(?:\[ *[0-9]+\.[0-9]+\] ?)?`)

// xidInfo is what the number of an XID error means.
type xidInfo struct {
	severity fleet.AlarmSeverity
	text     string
}

const (
	xidInfoLevel = fleet.AlarmInfo
	xidWarning   = fleet.AlarmWarning
	xidCritical  = fleet.AlarmCritical
)

// xids are the known XID errors: numbers and names as in NVIDIA's documentation "XID Errors". Faults that a program
// causes are information, because a guest or a container can cause them at will.
var xids = map[int]xidInfo{
	8:   {xidInfoLevel, "The GPU stopped processing"},
	13:  {xidInfoLevel, "A program caused an exception of the graphics engine"},
	31:  {xidInfoLevel, "A program accessed an invalid address of the GPU's memory"},
	32:  {xidWarning, "The GPU got an invalid or corrupted push buffer"},
	38:  {xidWarning, "The firmware of the driver has an error"},
	43:  {xidInfoLevel, "A program hit a fault and its channel was ended"},
	44:  {xidWarning, "The graphics engine had a fault during a context switch"},
	45:  {xidInfoLevel, "The driver ended a channel, usually after another error"},
	46:  {xidWarning, "The GPU stopped processing"},
	48:  {xidCritical, "The GPU had an uncorrected memory error (double bit ECC)"},
	54:  {xidCritical, "The auxiliary power of the GPU is not connected"},
	56:  {xidWarning, "The display engine has an error"},
	57:  {xidCritical, "The GPU cannot program its video memory"},
	58:  {xidCritical, "The GPU's video memory is not stable"},
	60:  {xidWarning, "The video processor has an error"},
	61:  {xidWarning, "The GPU's internal controller stopped at a breakpoint"},
	62:  {xidCritical, "The GPU's internal controller halted"},
	63:  {xidWarning, "The GPU has retired a page or row of its memory"},
	64:  {xidCritical, "The GPU could not retire a page or row of its memory"},
	65:  {xidWarning, "The video processor has an error"},
	66:  {xidInfoLevel, "The driver refused an illegal access"},
	67:  {xidInfoLevel, "The driver refused an illegal access"},
	68:  {xidWarning, "The video processor had an exception"},
	69:  {xidInfoLevel, "A program caused an error of the graphics engine's class"},
	74:  {xidCritical, "An NVLink of the GPU has an error"},
	78:  {xidWarning, "The vGPU could not be started"},
	79:  {xidCritical, "The GPU has fallen off the bus"},
	80:  {xidWarning, "The GPU got corrupted data"},
	81:  {xidInfoLevel, "The VGA subsystem has an error"},
	92:  {xidWarning, "The rate of corrected memory errors is high"},
	93:  {xidInfoLevel, "The driver's write to its non-volatile memory failed"},
	94:  {xidWarning, "A memory error was contained in one program"},
	95:  {xidCritical, "A memory error was not contained: all programs on the GPU are affected"},
	109: {xidWarning, "A context switch of the GPU took too long"},
	110: {xidCritical, "The GPU has a security fault"},
	119: {xidCritical, "The GPU's system processor (GSP) does not answer"},
	120: {xidCritical, "The GPU's system processor (GSP) has an error"},
	121: {xidWarning, "The link to the CPU (C2C) had an error"},
	122: {xidWarning, "The driver could not read the GPU's serial flash"},
	123: {xidWarning, "The GPU's power management failed"},
	136: {xidWarning, "Training of a link of the GPU failed"},
	140: {xidCritical, "The GPU had an uncorrected memory error"},
	143: {xidCritical, "The GPU could not be started"},
	144: {xidWarning, "An NVLink has a SAW error"},
	145: {xidWarning, "An NVLink has an RLW error"},
	146: {xidWarning, "An NVLink has a TLW error"},
	147: {xidWarning, "An NVLink has a TREX error"},
	148: {xidWarning, "An NVLink has an NVLPW error"},
	149: {xidWarning, "An NVLink has a NETIR error"},
	150: {xidWarning, "An NVLink has an MSE error"},
	151: {xidCritical, "The GPU could not rotate its encryption keys"},
	154: {xidWarning, "The GPU needs a recovery action"},
	155: {xidWarning, "An NVLink went down"},
	156: {xidWarning, "The GPU has retired a resource"},
	157: {xidCritical, "The GPU could not retire a resource"},
	158: {xidCritical, "The GPU has timed out fatally"},
	160: {xidWarning, "The GPU has retired a channel of its memory"},
	161: {xidWarning, "The GPU lost capacity by retired resources"},
	171: {xidWarning, "The GPU's memory had an uncorrected error"},
	172: {xidWarning, "The GPU's cache had an uncorrected error"},
}

// parseXID returns the occurrence that a line of the kernel log describes; false: another line.
func parseXID(line string) (healthevent.Finding, bool) {
	m := xidPattern.FindStringSubmatch(strings.TrimRight(timePrefix.ReplaceAllString(line, ""), "\r\n "))
	if m == nil {
		return healthevent.Finding{}, false
	}
	address, ok := pciAddress(strings.ToLower(m[2]))
	number, err := strconv.Atoi(m[3])
	if !ok || err != nil {
		return healthevent.Finding{}, false
	}
	detail := m[4]
	if m[1] != "" { // an NVSwitch
		severity := xidWarning
		if strings.HasPrefix(detail, "Fatal") {
			severity = xidCritical
		}
		return xidFinding("nvswitch/"+address, "sxid-", "SXid", number, severity, "An error of an NVSwitch", detail), true
	}
	info, known := xids[number]
	if !known {
		info = xidInfo{xidWarning, "An error of the GPU that Quantix does not know"}
	}
	return xidFinding("gpu/"+address, "xid-", "XID", number, info.severity, info.text, detail), true
}

func xidFinding(object, code, word string, number int, severity fleet.AlarmSeverity, text, detail string) healthevent.Finding {
	out := finding(object, code+strconv.Itoa(number), severity, fmt.Sprintf("%s (%s %d).", text, word, number), "xid", float64(number))
	if detail != "" {
		out.Text = fmt.Sprintf("%s (%s %d): %s", text, word, number, detail)
	}
	return out
}
