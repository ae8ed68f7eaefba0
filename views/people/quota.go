package people

import (
	"errors"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
	"quantix/views/kit"
	"quantix/views/request"
)

// ProjectUsagePage shows what a project uses, beside its limits.
type ProjectUsagePage struct {
	ProjectPage
	Usage     quota.ProjectUsage
	PoolNames map[fleet.PoolID]string // pools that the user may see
	Days      []quota.Day             // of the last year, oldest first
}

// maxTrendDays is the number of days that a trend shows.
const maxTrendDays = 90

// trend is the trend of a resource's use: one value for each of the last days, as percent of the largest one or of the
// limit; none: its use is not stored.
func (p ProjectUsagePage) trend(l quota.Line) (v kit.SparklineView, text string) {
	use, stored := quota.Trends[l.Key]
	if !stored || len(p.Days) < 2 || l.Pool != "" {
		return v, ""
	}
	last, err := time.Parse(time.DateOnly, p.Days[len(p.Days)-1].Day)
	if err != nil {
		return v, ""
	}
	v = kit.SparklineView{Name: l.Label}
	largest, first, newest := int64(1), int64(-1), int64(0)
	if l.Hard != nil {
		largest = max(1, *l.Hard)
	}
	byDay := map[string]int64{}
	for _, d := range p.Days {
		byDay[d.Day] = use(d)
	}
	for i := range maxTrendDays {
		if n, known := byDay[last.AddDate(0, 0, i+1-maxTrendDays).Format(time.DateOnly)]; known {
			largest, newest = max(largest, n), n
			if first < 0 {
				first = n
			}
		}
	}
	for i := range maxTrendDays {
		value := math.NaN()
		if n, known := byDay[last.AddDate(0, 0, i+1-maxTrendDays).Format(time.DateOnly)]; known {
			value = 100 * float64(n) / float64(largest)
		}
		v.Values = append(v.Values, value)
	}
	return v, l.Label + " in the last 90 days: from " + l.Unit.Text(first) + " to " + l.Unit.Text(newest)
}

// LimitedLines are the resources of the project that have a limit.
func LimitedLines(use quota.ProjectUsage) []quota.Line {
	limited, _ := ProjectUsagePage{Usage: use}.lines()
	return limited
}

// lines returns the resources that have a limit or are used, those with a limit first.
func (p ProjectUsagePage) lines() (limited, others []quota.Line) {
	for _, l := range p.Usage.Lines(quota.Usage{}) {
		switch {
		case l.Hard != nil || l.Soft != nil:
			limited = append(limited, l)
		case l.Used > 0:
			others = append(others, l)
		}
	}
	return limited, others
}

// QuotaLabel is the name of the line's resource: "vCPUs", "Disk space in ssd-1".
func QuotaLabel(l quota.Line, pools map[fleet.PoolID]string) string {
	if l.Pool == "" {
		return l.Label
	}
	if name := pools[l.Pool]; name != "" {
		return "Disk space in " + name
	}
	return "Disk space in a pool that you may not see"
}

// quotaText compares use with the limits: "7 of 8", "3 GiB, soft limit 2 GiB".
func quotaText(l quota.Line) string {
	used := l.Unit.Text(l.Used)
	switch {
	case l.Hard != nil:
		return used + " of " + l.Unit.Text(*l.Hard)
	case l.Soft != nil:
		return used + ", soft limit " + l.Unit.Text(*l.Soft)
	}
	return used
}

// quotaState describes a state that is not within the limits.
func quotaState(l quota.Line) (text string, severity fleet.Severity) {
	switch l.State() {
	case quota.OverHard:
		return "Over quota", fleet.SeverityBad
	case quota.Full:
		return "Used up", fleet.SeverityWarn
	case quota.OverSoft:
		return "Above soft limit", fleet.SeverityWarn
	}
	return "", fleet.SeverityOK
}

// quotaBar returns the parts of a line's bar.
func quotaBar(l quota.Line) []kit.UsageSegment {
	whole := l.Hard
	if whole == nil {
		whole = l.Soft
	}
	percent := 100
	if *whole > 0 {
		percent = min(100, int(float64(l.Used)/float64(*whole)*100))
	} else if l.Used == 0 {
		percent = 0
	}
	class := ""
	switch l.State() {
	case quota.OverHard:
		class = "bad"
	case quota.Full, quota.OverSoft:
		class = "warn"
	}
	return []kit.UsageSegment{{Percent: percent, Class: class}}
}

// QuotaForm is the form of a project's limits.
type QuotaForm struct {
	Project fleet.Project
	Rows    []QuotaRow
	Typed   url.Values // the values of a refused form; nil: the stored ones
	Pools   kit.SelectChoices
	Errors  kit.Errors
}

// QuotaRow is a row of the form: one resource.
type QuotaRow struct {
	Name, Label, Unit string // Name is the prefix of the fields: "cpus", "pools.<id>"
	Used              string
	Hard, Soft        string // as text, in Unit
}

// NewQuotaForm returns the form with the stored limits. Pools that the project uses have rows too.
func NewQuotaForm(project fleet.Project, use quota.ProjectUsage, pools map[fleet.PoolID]string) QuotaForm {
	f := QuotaForm{Project: project}
	shown := use.Quota
	shown.Pools = map[fleet.PoolID]quota.Limit{}
	for id := range pools {
		shown.Pools[id] = use.Quota.Pools[id]
	}
	maps.Copy(shown.Pools, use.Quota.Pools)
	for _, l := range quota.Lines(shown, use.Usage, quota.Usage{}) {
		row := QuotaRow{Name: l.Key, Label: QuotaLabel(l, pools), Unit: limitUnit(l.Unit), Used: l.Unit.Text(l.Used), Hard: LimitText(l.Unit, l.Hard), Soft: LimitText(l.Unit, l.Soft)}
		if l.Pool != "" {
			row.Name += "." + string(l.Pool)
		}
		f.Rows = append(f.Rows, row)
	}
	slices.SortStableFunc(f.Rows, func(x, y QuotaRow) int { // pools by name, after the resources
		if px, py := strings.Contains(x.Name, "."), strings.Contains(y.Name, "."); px && py {
			return strings.Compare(x.Label, y.Label)
		}
		return 0
	})
	return f
}

// value returns the value of a field: as typed, or as stored.
func (f QuotaForm) value(name, stored string) string {
	if f.Typed != nil {
		return f.Typed.Get(name)
	}
	return stored
}

// newPoolField is a field for the limit of a pool that has none yet.
func newPoolField(f QuotaForm, name, label string) kit.Field {
	return kit.Field{Name: name, Label: label, Value: f.value(name, ""), Unit: "GiB", Short: true, Error: f.Errors.At(name), Attrs: templ.Attributes{"inputmode": "decimal", "autocomplete": "off"}}
}

// limitUnit is the unit of limits in a form.
func limitUnit(u quota.Unit) string {
	if u == quota.Count {
		return ""
	}
	return "GiB"
}

// unitSize is the quantity of one limitUnit.
func unitSize(u quota.Unit) float64 {
	switch u {
	case quota.Mebibytes:
		return 1 << 10
	case quota.Bytes:
		return 1 << 30
	}
	return 1
}

// LimitText is a limit as a form shows it, in GiB or as a count; nil: empty.
func LimitText(u quota.Unit, n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(float64(*n)/unitSize(u), 'f', -1, 64)
}

// ParseLimit reads a limit from a form, in GiB or as a count. Empty text is no limit.
func ParseLimit(u quota.Unit, text string) (*int64, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil //nolint:nilnil // nil is no limit
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", "."), 64)
	n := math.Round(v * unitSize(u))
	switch {
	case err != nil || math.IsNaN(v) || v < 0 || n > 1<<53:
		return nil, errors.New("Enter a number that is not negative, or nothing for no limit.")
	case u == quota.Count && v != math.Trunc(v):
		return nil, errors.New("Enter a whole number, or nothing for no limit.")
	}
	out := int64(n)
	return &out, nil
}

// ProjectUse is a project with what it uses.
type ProjectUse struct {
	Project fleet.Project
	Use     quota.ProjectUsage
}

// ProjectsCSV returns the columns of the export of projects. Units are those of quota.Quota.
func ProjectsCSV() []kit.CSVColumn[ProjectUse] {
	out := []kit.CSVColumn[ProjectUse]{
		{Name: "id", Value: func(p *ProjectUse) string { return string(p.Project.ID) }},
		{Name: "name", Value: func(p *ProjectUse) string { return p.Project.Name }},
		{Name: "description", Value: func(p *ProjectUse) string { return p.Project.Description }},
	}
	limit := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	for _, r := range quota.Resources {
		out = append(out,
			kit.CSVColumn[ProjectUse]{Name: r.Key, Value: func(p *ProjectUse) string { return strconv.FormatInt(r.Used(p.Use.Usage), 10) }},
			kit.CSVColumn[ProjectUse]{Name: r.Key + ".hard", Value: func(p *ProjectUse) string { return limit(r.Limit(&p.Use.Quota).Hard) }},
			kit.CSVColumn[ProjectUse]{Name: r.Key + ".soft", Value: func(p *ProjectUse) string { return limit(r.Limit(&p.Use.Quota).Soft) }})
	}
	return out
}

// mayManage reports whether the user may change the project.
func (p ProjectPage) mayManage() bool { return policy.May(p.Actor, policy.Manage, "") }

// mayRequest reports whether the user may ask for more.
func (p ProjectPage) mayRequest() bool { return policy.May(p.Actor, policy.VMChange, p.Project.ID) }

// requestPath is the dialog of a new request; with limits for more quota, otherwise for what else a project can get.
func (p ProjectUsagePage) requestPath() string {
	values := url.Values{}
	for _, r := range quota.Resources {
		if r.Limit(&p.Usage.Quota).Hard != nil {
			values.Set("kind", "quota")
		}
	}
	return request.NewPath(p.Project.ID, values)
}
