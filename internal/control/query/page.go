package query

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/filter"
	"quantix/internal/fleet"
)

// Limits of a page.
const (
	defaultPageSize = 100
	maxPageSize     = 500

	maxCursorText = 4096 // bytes of one value in a cursor

	defaultRowLimit = defaultPageSize + 1 // rows read for a page: one extra row shows whether another page follows
)

// sortColumn is a column by which a list is sorted. valid reports whether a cursor's value for the column has exactly
// the form that the portal writes, because other values could cause SQL errors.
type sortColumn struct {
	sql   string
	valid func(string) bool
}

func textColumn(sql string) sortColumn {
	return sortColumn{sql, func(v string) bool { return len(v) <= maxCursorText && !strings.ContainsRune(v, 0) }}
}

func int32Column(sql string) sortColumn { return sortColumn{sql, integerValidator(32)} }

func int64Column(sql string) sortColumn { return sortColumn{sql, integerValidator(64)} }

func integerValidator(bits int) func(string) bool {
	return func(v string) bool {
		n, err := strconv.ParseInt(v, 10, bits)
		return err == nil && strconv.FormatInt(n, 10) == v
	}
}

func timeColumn(sql string) sortColumn {
	return sortColumn{sql, func(v string) bool {
		at, err := time.Parse(time.RFC3339Nano, v)
		return err == nil && at.Year() > 0 && formatTime(at) == v
	}}
}

// sortOrder is a sort order of a list. Its columns together identify one row. values returns an item's values of these
// columns, for a cursor.
type sortOrder[T any] struct {
	columns []sortColumn
	values  func(T) []string
}

// withFirstColumn returns the sort order by the column first, and among equal values by o.
func (o sortOrder[T]) withFirstColumn(first sortColumn, value func(T) string) sortOrder[T] {
	return sortOrder[T]{append([]sortColumn{first}, o.columns...), func(item T) []string { return append([]string{value(item)}, o.values(item)...) }}
}

// sortOrders are the sort orders of one list, by sort key.
type sortOrders[T any] map[string]sortOrder[T]

// pagePosition is the position of a page in a list: the sort order, the cursor and the limit. For a backward page, SQL
// returns the rows in reverse order, nearest to the cursor first, and buildPage reverses them again.
type pagePosition[T any] struct {
	sortOrder[T]
	sort     string
	desc     bool     // order of the rows in SQL
	backward bool     // the page ends before the cursor instead of starting after it
	cursor   []string // nil for the first page
	limit    int
}

// parseQuery works like parsePaging and also parses the filter of q.
func (all sortOrders[T]) parseQuery(q fleet.Query, defaultSort string, keys fleet.FilterKeys) (pagePosition[T], []filter.Term, error) {
	p, err := all.parsePaging(q, defaultSort)
	if err != nil {
		return p, nil, err
	}
	terms, err := filter.Parse(keys, q.Filter)
	return p, terms, err
}

// parsePaging parses sort, cursor and limit of q. defaultSort is the sort if q has none.
func (all sortOrders[T]) parsePaging(q fleet.Query, defaultSort string) (pagePosition[T], error) {
	p := pagePosition[T]{sort: q.Sort, limit: q.Limit}
	if p.sort == "" {
		p.sort = defaultSort
	}
	if p.limit < 1 {
		p.limit = defaultPageSize
	}
	p.limit = min(p.limit, maxPageSize)
	key, desc := strings.CutPrefix(p.sort, "-")
	o, ok := all[key]
	if !ok {
		var c fleet.Checks
		c.Add("sort", "This list cannot be sorted by %q. Sort by one of: %s; put - in front for the reverse order.", key, strings.Join(sortedKeys(all), ", "))
		return p, c.Err()
	}
	p.sortOrder, p.backward = o, q.Before != ""
	p.desc = desc != p.backward
	var err error
	switch {
	case q.After != "" && q.Before != "":
		err = fleet.Errorf(fleet.Malformed, "A page begins after one cursor or ends before one. Give only one cursor.")
	case q.After != "" || q.Before != "":
		p.cursor, err = readCursor(cmp.Or(q.After, q.Before), p.sort, o.columns)
	}
	return p, err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// applyCursor adds the cursor's condition to s and returns ORDER BY and LIMIT. The limit is one row more than the page,
// to detect whether another page follows. PostgreSQL plans the statement each time, because a cached plan that was made
// for an empty table would sort all rows of a large table.
func (p pagePosition[T]) applyCursor(s *statementBuilder) string {
	s.planEachTime = true
	if p.cursor != nil {
		names, values := make([]string, len(p.columns)), make([]string, len(p.columns))
		for i, c := range p.columns {
			names[i], values[i] = c.sql, s.addKeyArg(p.cursor[i])
		}
		row, at := "("+strings.Join(names, ", ")+")", "("+strings.Join(values, ", ")+")"
		// A >= or <= condition includes the cursor's row, which a second condition excludes. With > or <, PostgreSQL's
		// planner would estimate that no row has the cursor's value in the first column, and would sort instead of reading
		// the index in order.
		s.addCondition(row + p.cursorOperator() + at)
		s.addCondition(row + " <> " + at)
	}
	return " ORDER BY " + p.orderBySQL() + " LIMIT " + s.addKeyArg(p.limit+1)
}

// applyCursorToFirstColumn adds the cursor's condition for the first column alone. applyCursor's condition implies it,
// but if the sort columns belong to several tables, PostgreSQL can use an index only for this one. Do not use it for
// columns of one table, because PostgreSQL would then expect too few rows.
func (p pagePosition[T]) applyCursorToFirstColumn(s *statementBuilder) {
	if p.cursor != nil {
		s.addCondition(p.columns[0].sql + p.cursorOperator() + s.addKeyArg(p.cursor[0]))
	}
}

// cursorOperator returns the SQL operator that selects the cursor's row and all rows behind it.
func (p pagePosition[T]) cursorOperator() string {
	if p.desc {
		return " <= "
	}
	return " >= "
}

// orderBySQL returns the ORDER BY list.
func (p pagePosition[T]) orderBySQL() string {
	parts := make([]string, len(p.columns))
	for i, c := range p.columns {
		if parts[i] = c.sql; p.desc {
			parts[i] += " DESC"
		}
	}
	return strings.Join(parts, ", ")
}

// buildPage returns the page with the rows that the statement with applyCursor's conditions has returned.
func (p pagePosition[T]) buildPage(items []T) fleet.Page[T] {
	more := len(items) > p.limit
	if more {
		items = items[:p.limit]
	}
	page := fleet.Page[T]{Items: items}
	if len(items) == 0 {
		return page
	}
	before, after := p.cursor != nil, more
	if p.backward {
		before, after = more, true
		slices.Reverse(items)
	}
	if before {
		page.Prev = writeCursor(p.sort, p.values(items[0]))
	}
	if after {
		page.Next = writeCursor(p.sort, p.values(items[len(items)-1]))
	}
	return page
}

// writeCursor encodes a cursor as base64url JSON: the sort key, then the row's values in the sort's columns.
func writeCursor(sort string, values []string) string {
	text, _ := json.Marshal(append([]string{sort}, values...)) // strings always marshal
	return base64.RawURLEncoding.EncodeToString(text)
}

func readCursor(cursor, sort string, columns []sortColumn) ([]string, error) {
	outdated := fleet.Errorf(fleet.Malformed, "This page link is out of date. Go back to the first page of the list.")
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	var values []string
	if err != nil || json.Unmarshal(text, &values) != nil || len(values) != len(columns)+1 || values[0] != sort {
		return nil, outdated
	}
	for i, c := range columns {
		if !c.valid(values[i+1]) {
			return nil, outdated
		}
	}
	return values[1:], nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
