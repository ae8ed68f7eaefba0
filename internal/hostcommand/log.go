package hostcommand

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// LogLine is one line of an agent's log.
type LogLine struct {
	At    time.Time `json:"at,omitzero"`
	Level string    `json:"level"` // DEBUG, INFO, WARN or ERROR; empty: unknown
	Text  string    `json:"text"`  // the message with its attributes
}

// LogLevels lists the levels of log lines, the lowest one first.
var LogLevels = []string{"DEBUG", "INFO", "WARN", "ERROR"}

// ParseLog splits the text of a LogItem into its lines, in the form of slog.TextHandler.
func ParseLog(text string) []LogLine {
	lines := []LogLine{}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			lines = append(lines, parseLogLine(line))
		}
	}
	return lines
}

func parseLogLine(line string) LogLine {
	out := LogLine{Text: line}
	at, rest, ok := cutAttribute(line, "time=")
	level, rest, ok2 := cutAttribute(rest, "level=")
	if !ok || !ok2 {
		return out
	}
	out.At, _ = time.Parse(time.RFC3339Nano, at)
	var l slog.Level
	if l.UnmarshalText([]byte(level)) == nil {
		out.Level = roundLevel(l)
	}
	out.Text = rest
	if after, ok := strings.CutPrefix(rest, "msg="); ok {
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			out.Text = after
		} else if message, err := strconv.Unquote(quoted); err == nil {
			out.Text = EscapeControls(strings.ReplaceAll(message, "\n", `\n`)) + after[len(quoted):]
		}
	}
	return out
}

func cutAttribute(line, name string) (value, rest string, ok bool) {
	after, ok := strings.CutPrefix(line, name)
	if !ok {
		return "", line, false
	}
	value, rest, ok = strings.Cut(after, " ")
	return value, rest, ok
}

func roundLevel(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "DEBUG"
	case l < slog.LevelWarn:
		return "INFO"
	case l < slog.LevelError:
		return "WARN"
	}
	return "ERROR"
}

// Severity returns the line's severity on pages.
func (l LogLine) Severity() fleet.Severity {
	switch l.Level {
	case "ERROR":
		return fleet.SeverityBad
	case "WARN":
		return fleet.SeverityWarn
	case "INFO":
		return fleet.SeverityOK
	}
	return fleet.SeverityIdle
}

// FilterLog returns the lines of at least the level. Lines of unknown level stay.
func FilterLog(lines []LogLine, level string) []LogLine {
	rank := map[string]int{}
	for i, l := range LogLevels {
		rank[l] = i + 1
	}
	out := []LogLine{}
	for _, l := range lines {
		if rank[l.Level] == 0 || rank[l.Level] >= rank[level] {
			out = append(out, l)
		}
	}
	return out
}
