package healthcheck

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// maxGPUs is the maximum number of GPUs that the check reads.
const maxGPUs = 64

// GPUs returns the check of NVIDIA GPUs: their state by nvidia-smi, and their XID errors in the kernel log.
func GPUs(nvidiaSMI Program, log *KernelLog) Check {
	return Check{
		Name: "gpu", Interval: time.Minute, Timeout: 45 * time.Second,
		Run: func(ctx context.Context) ([]healthevent.Finding, error) {
			within, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			text, status, err := nvidiaSMI(within, "-q", "-x")
			switch {
			case errors.Is(err, errNotInstalled):
				return nil, Unavailable("nvidia-smi is not installed: temperature and memory errors of NVIDIA GPUs are not checked. XID errors in the kernel log are.")
			case err != nil:
				return nil, fmt.Errorf("nvidia-smi: %w", err)
			case status == 9 || status == 6 || bytes.Contains(text, []byte("No devices were found")):
				return nil, Unavailable("nvidia-smi finds no GPU that its driver manages. XID errors in the kernel log are checked.")
			case status != 0 && !bytes.Contains(text, []byte("<nvidia_smi_log")):
				return nil, fmt.Errorf("nvidia-smi ended with status %d: %s", status, firstLine(text))
			}
			return gpuFindings(text)
		},
		Watch: func(ctx context.Context, occur func(healthevent.Finding)) error {
			return log.Follow(ctx, func(line string) {
				if f, ok := parseXID(line); ok {
					occur(f)
				}
			})
		},
	}
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return string(line[:min(len(line), 200)])
}

// gpuRecord is a GPU in the output of nvidia-smi -q -x. Elements that a driver does not write stay empty.
type gpuRecord struct {
	ID          string `xml:"id,attr"`
	Product     string `xml:"product_name"`
	UUID        string `xml:"uuid"`
	Temperature struct {
		GPU      string `xml:"gpu_temp"`
		Slowdown string `xml:"gpu_temp_slow_threshold"`
	} `xml:"temperature"`
	OldReasons throttleReasons `xml:"clocks_throttle_reasons"`
	Reasons    throttleReasons `xml:"clocks_event_reasons"` // since driver 535
	ECC        struct {
		Volatile eccCounts `xml:"volatile"`
	} `xml:"ecc_errors"`
	Remapped struct {
		Pending string `xml:"remapped_row_pending"`
		Failure string `xml:"remapped_row_failure"`
	} `xml:"remapped_rows"`
	Retired struct {
		Pending     string `xml:"pending_retirement"`
		PendingPage string `xml:"pending_blacklist"`
	} `xml:"retired_pages"`
}

type throttleReasons struct {
	OldHardware string `xml:"clocks_throttle_reason_hw_thermal_slowdown"`
	OldSoftware string `xml:"clocks_throttle_reason_sw_thermal_slowdown"`
	Hardware    string `xml:"clocks_event_reason_hw_thermal_slowdown"`
	Software    string `xml:"clocks_event_reason_sw_thermal_slowdown"`
}

// eccCounts are the errors since the driver was loaded: of drivers since 450, and of older ones.
type eccCounts struct {
	SRAMCorrected     string `xml:"sram_correctable"`
	SRAMUncorrected   string `xml:"sram_uncorrectable"`
	SRAMParity        string `xml:"sram_uncorrectable_parity"`
	SRAMSECDED        string `xml:"sram_uncorrectable_secded"`
	DRAMCorrected     string `xml:"dram_correctable"`
	DRAMUncorrected   string `xml:"dram_uncorrectable"`
	OldCorrected      string `xml:"single_bit>total"`
	OldUncorrected    string `xml:"double_bit>total"`
	OldCorrectedRAM   string `xml:"single_bit>device_memory"`
	OldUncorrectedRAM string `xml:"double_bit>device_memory"`
}

var leadingNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?`)

// smiNumber parses "61 C" or "12". "N/A" and the like are no numbers.
func smiNumber(text string) (float64, bool) {
	n, err := strconv.ParseFloat(leadingNumber.FindString(strings.TrimSpace(text)), 64)
	return n, err == nil
}

func sumNumbers(all ...string) (sum float64) {
	for _, text := range all {
		n, _ := smiNumber(text)
		sum += n
	}
	return sum
}

// gpuFindings judges the output of nvidia-smi -q -x. A GPU without an address is unread and hides no other.
func gpuFindings(text []byte) ([]healthevent.Finding, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("nvidia-smi wrote nothing")
	}
	decoder := xml.NewDecoder(bytes.NewReader(text))
	decoder.Strict = true
	var out []healthevent.Finding
	var broken []string
	seen, isLog := 0, false
	for seen < maxGPUs {
		token, err := decoder.Token()
		if err != nil {
			if isLog && err.Error() == "EOF" {
				break
			}
			return out, Partial{append(broken, "gpu"), "The output of nvidia-smi is not complete XML."}
		}
		start, ok := token.(xml.StartElement)
		if ok && start.Name.Local == "nvidia_smi_log" {
			isLog = true
		}
		if !ok || !isLog || start.Name.Local != "gpu" {
			continue
		}
		seen++
		var g gpuRecord
		if err := decoder.DecodeElement(&g, &start); err != nil {
			return out, Partial{append(broken, "gpu"), "The output of nvidia-smi is not complete XML."}
		}
		address, ok := pciAddress(g.ID)
		if !ok {
			broken = append(broken, "gpu/"+g.ID)
			continue
		}
		out = append(out, g.findings("gpu/"+address)...)
	}
	if len(broken) > 0 {
		return out, Partial{broken, fmt.Sprintf("nvidia-smi gives no usable address of %s.", fleet.CountWithUnit(len(broken), "GPU"))}
	}
	return out, nil
}

func (g gpuRecord) findings(object string) (out []healthevent.Finding) {
	v := g.ECC.Volatile
	corrected, uncorrected := sumNumbers(v.SRAMCorrected, v.DRAMCorrected), sumNumbers(v.SRAMUncorrected, v.SRAMParity, v.SRAMSECDED, v.DRAMUncorrected)
	if n := max(sumNumbers(v.OldCorrected), sumNumbers(v.OldCorrectedRAM)); corrected == 0 {
		corrected = n
	}
	if n := max(sumNumbers(v.OldUncorrected), sumNumbers(v.OldUncorrectedRAM)); uncorrected == 0 {
		uncorrected = n
	}
	values := map[string]float64{"corrected": corrected, "uncorrected": uncorrected}
	t, hasTemperature := smiNumber(g.Temperature.GPU)
	if hasTemperature {
		values["temperature"] = t
	}
	add := func(code string, severity fleet.AlarmSeverity, text string) {
		out = append(out, healthevent.Finding{Object: object, Code: code, Severity: severity, Text: text, Values: values, Attributes: map[string]string{"model": g.Product, "uuid": g.UUID}})
	}
	name := "The GPU " + strings.TrimPrefix(object, "gpu/")
	if t, ok := smiNumber(g.Temperature.GPU); !ok && (strings.Contains(g.Temperature.GPU, "ERR") || strings.Contains(g.Temperature.GPU, "Unknown Error")) && t == 0 {
		add("gpu-lost", fleet.AlarmCritical, name+" does not answer its driver. Drain the host and reboot it.")
	}
	active := func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), "Active") }
	slowdown, hasLimit := smiNumber(g.Temperature.Slowdown)
	switch {
	case active(g.Reasons.Hardware) || active(g.OldReasons.OldHardware) || hasTemperature && hasLimit && slowdown > 0 && t >= slowdown:
		add("gpu-hot", fleet.AlarmCritical, name+" is too hot: its hardware has slowed it down. Check fans and air flow.")
	case active(g.Reasons.Software) || active(g.OldReasons.OldSoftware):
		add("gpu-hot", fleet.AlarmWarning, name+" is hot: its driver has slowed it down.")
	}
	if uncorrected > 0 {
		add("gpu-uncorrected", fleet.AlarmCritical, name+" has had uncorrected memory errors since its driver was loaded.")
	}
	yes := func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), "Yes") }
	if yes(g.Remapped.Failure) {
		add("gpu-remap-failed", fleet.AlarmCritical, name+" could not replace a defective row of its memory. Replace the GPU.")
	}
	if yes(g.Remapped.Pending) || yes(g.Retired.Pending) || yes(g.Retired.PendingPage) {
		add("gpu-reset-needed", fleet.AlarmWarning, name+" must be reset to retire defective memory.")
	}
	return out
}

var pciPattern = regexp.MustCompile(`^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?$`)

// pciAddress returns the address as the kernel spells it: "0000:41:00.0".
func pciAddress(text string) (string, bool) {
	m := pciPattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return "", false
	}
	domain, err := strconv.ParseUint(m[1]+"", 16, 32)
	if m[1] == "" {
		domain, err = 0, nil
	}
	function := m[4]
	if function == "" {
		function = "0"
	}
	return strings.ToLower(fmt.Sprintf("%04x:%s:%s.%s", domain, m[2], m[3], function)), err == nil
}
