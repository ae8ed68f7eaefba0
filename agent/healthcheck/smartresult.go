package healthcheck

import (
	"encoding/json"
	"fmt"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// smartResult is the output of smartctl --json -a: ATA, NVMe and SCSI disks each have other parts.
type smartResult struct {
	Smartctl struct {
		Messages []struct {
			Text     string `json:"string"`
			Severity string `json:"severity"`
		} `json:"messages"`
	} `json:"smartctl"`
	Model       string `json:"model_name"`
	SCSIModel   string `json:"scsi_model_name"`
	Serial      string `json:"serial_number"`
	SmartStatus *struct {
		Passed *bool `json:"passed"`
	} `json:"smart_status"`
	Temperature struct {
		Current *float64 `json:"current"`
		Trip    float64  `json:"drive_trip"`
		OpMax   float64  `json:"op_limit_max"`
	} `json:"temperature"`
	PowerOn struct {
		Hours *float64 `json:"hours"`
	} `json:"power_on_time"`
	RotationRate float64 `json:"rotation_rate"`
	ATA          struct {
		Table []ataAttribute `json:"table"`
	} `json:"ata_smart_attributes"`
	NVMe *struct {
		CriticalWarning int     `json:"critical_warning"`
		PercentageUsed  float64 `json:"percentage_used"`
		MediaErrors     float64 `json:"media_errors"`
		Spare           float64 `json:"available_spare"`
		SpareThreshold  float64 `json:"available_spare_threshold"`
	} `json:"nvme_smart_health_information_log"`
	GrownDefects *float64 `json:"scsi_grown_defect_list"`
	SCSIUsed     *float64 `json:"scsi_percentage_used_endurance_indicator"`
	SCSIErrors   map[string]struct {
		Uncorrected float64 `json:"total_uncorrected_errors"`
	} `json:"scsi_error_counter_log"`
	Endurance struct {
		Percent *float64 `json:"current_percent"`
	} `json:"endurance_used"`
}

type ataAttribute struct {
	ID  int `json:"id"`
	Raw struct {
		Value int64  `json:"value"`
		Text  string `json:"string"`
	} `json:"raw"`
}

// IDs of ATA attributes.
const (
	ataReallocated   = 5
	ataPending       = 197
	ataUncorrectable = 198
)

// Limits of findings.
const (
	manyReallocated  = 10
	enduranceWarning = 90 // percent
	hotRotating      = 60 // °C
	hotSolidState    = 70
	coolerBy         = 3 // °C below the limit end the finding
)

func parseSMART(text []byte) (r smartResult, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return smartResult{}, badJSON(text, err)
	}
	if r.SmartStatus == nil && len(r.Smartctl.Messages) == 0 && len(r.ATA.Table) == 0 && r.NVMe == nil && r.GrownDefects == nil && r.Model == "" {
		return smartResult{}, fmt.Errorf("its output has nothing about the disk")
	}
	return r, nil
}

// openError returns why smartctl could not read the disk; empty: it could. Exit bits 0 and 1 say that it could not; the
// other bits are about the disk's health.
func (r smartResult) openError(status int) string {
	if status&3 == 0 {
		return ""
	}
	for _, m := range r.Smartctl.Messages {
		if m.Text != "" {
			return m.Text
		}
	}
	return fmt.Sprintf("smartctl ended with status %d", status)
}

func (r smartResult) findings(object string, wasHot bool) (out []healthevent.Finding) {
	values, attributes := r.values(), map[string]string{"model": r.model(), "serial": r.Serial}
	add := func(code string, severity fleet.AlarmSeverity, text string, args ...any) {
		out = append(out, healthevent.Finding{Object: object, Code: code, Severity: severity, Text: fmt.Sprintf(text, args...), Values: values, Attributes: attributes})
	}
	name := strings.TrimPrefix(object, "disk/")
	if r.SmartStatus != nil && r.SmartStatus.Passed != nil && !*r.SmartStatus.Passed {
		add("smart-failing", fleet.AlarmCritical, "The disk %s reports that it is failing. Move its data and replace it.", name)
	}
	if n := values["pendingSectors"]; n > 0 {
		add("pending-sectors", fleet.AlarmWarning, "The disk %s has %.0f sectors that it cannot read.", name, n)
	}
	if n := values["uncorrectableSectors"]; n > 0 {
		add("uncorrectable-sectors", fleet.AlarmWarning, "The disk %s has %.0f sectors that it could not correct.", name, n)
	}
	switch n := values["reallocatedSectors"]; {
	case n >= manyReallocated:
		add("reallocated-sectors", fleet.AlarmWarning, "The disk %s has replaced %.0f sectors by spare ones.", name, n)
	case n > 0:
		add("reallocated-sectors", fleet.AlarmInfo, "The disk %s has replaced %.0f sectors by spare ones.", name, n)
	}
	if r.NVMe != nil && r.NVMe.CriticalWarning != 0 {
		add("nvme-critical-warning", fleet.AlarmCritical, "The disk %s reports a critical warning: %s.", name, nvmeWarnings(r.NVMe.CriticalWarning))
	}
	switch used, known := values["percentUsed"]; {
	case known && used >= 100:
		add("endurance", fleet.AlarmWarning, "The disk %s has used up its rated endurance. Plan its replacement.", name)
	case known && used >= enduranceWarning:
		add("endurance", fleet.AlarmWarning, "The disk %s has used at least 90 %% of its rated endurance.", name)
	}
	if n := values["mediaErrors"]; n > 0 {
		add("media-errors", fleet.AlarmWarning, "The disk %s has had %.0f errors of its media.", name, n)
	}
	if t, known := values["temperature"]; known {
		limit := r.hot()
		if t >= limit || wasHot && t > limit-coolerBy {
			add("disk-hot", fleet.AlarmWarning, "The disk %s is hotter than %.0f °C.", name, limit)
		}
	}
	return out
}

func (r smartResult) model() string {
	if r.Model == "" {
		return r.SCSIModel
	}
	return r.Model
}

// hot returns the lowest temperature of a disk that is too hot: its own limit, else a usual one.
func (r smartResult) hot() float64 {
	for _, own := range []float64{r.Temperature.OpMax, r.Temperature.Trip} {
		if own >= 40 && own <= 100 {
			return own
		}
	}
	if r.RotationRate > 0 {
		return hotRotating
	}
	return hotSolidState
}

// values returns the values of findings, see healthevent.Checks. A value that the disk does not report is missing.
func (r smartResult) values() map[string]float64 {
	out := map[string]float64{}
	set := func(name string, v *float64) {
		if v != nil {
			out[name] = *v
		}
	}
	set("temperature", r.Temperature.Current)
	set("powerOnHours", r.PowerOn.Hours)
	set("percentUsed", r.Endurance.Percent)
	set("percentUsed", r.SCSIUsed)
	set("reallocatedSectors", r.GrownDefects)
	for _, a := range r.ATA.Table {
		raw := float64(a.Raw.Value & 0xffffffff) // some vendors keep other counters in the upper bytes
		switch a.ID {
		case ataReallocated:
			out["reallocatedSectors"] = raw
		case ataPending:
			out["pendingSectors"] = raw
		case ataUncorrectable:
			out["uncorrectableSectors"] = raw
		}
	}
	if len(r.SCSIErrors) > 0 {
		for _, kind := range []string{"read", "write", "verify"} {
			out["mediaErrors"] += r.SCSIErrors[kind].Uncorrected
		}
	}
	if r.NVMe != nil {
		out["percentUsed"], out["mediaErrors"] = r.NVMe.PercentageUsed, r.NVMe.MediaErrors
	}
	return out
}

// nvmeWarnings names the bits of an NVMe critical warning.
func nvmeWarnings(bits int) string {
	var out []string
	for i, text := range []string{
		"the spare blocks are nearly used up", "the temperature is outside its limits", "it is no longer reliable", "it is read-only",
		"its memory is no longer protected from a power failure", "its persistent memory is read-only",
	} {
		if bits&(1<<i) != 0 {
			out = append(out, text)
		}
	}
	if len(out) == 0 {
		return fmt.Sprintf("unknown bits %#x", bits)
	}
	return strings.Join(out, ", ")
}
