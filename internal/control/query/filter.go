package query

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// filterScope holds what a filterCondition needs: the context, the queries, the statement under construction and the
// actor.
type filterScope struct {
	context.Context
	*Queries
	*statementBuilder
	actor fleet.Actor
}

// filterCondition adds the SQL condition of one filter term to the statement.
type filterCondition func(f filterScope, t filter.Term) error

// listFilter are the conditions of one list, by filter key. A term without a condition here is applied to the rows that
// SQL returns.
type listFilter map[string]filterCondition

// applyFilter adds the conditions of all terms to s, and returns the terms without a condition.
func (b *Queries) applyFilter(ctx context.Context, s *statementBuilder, a fleet.Actor, all listFilter, terms []filter.Term) (rest []filter.Term, err error) {
	f := filterScope{ctx, b, s, a}
	for _, t := range terms {
		condition, ok := all[t.Key]
		if !ok {
			rest = append(rest, t)
			continue
		}
		if err := condition(f, t); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// sqlCondition returns a filterCondition that adds the SQL condition returned by sql, negated if the term is.
func sqlCondition(sql func(f filterScope, t filter.Term) string) filterCondition {
	return func(f filterScope, t filter.Term) error {
		f.addConditionOrNegation(t.Not, sql(f, t))
		return nil
	}
}

// exactTextCondition returns a condition on a text column that distinguishes upper and lower case.
func exactTextCondition(column string) filterCondition {
	return sqlCondition(func(f filterScope, t filter.Term) string { return f.matchText(column, t.Alternatives) })
}

// lowerTextCondition returns a condition on a text column that ignores case. The column's values must be in lower case.
func lowerTextCondition(column string) filterCondition {
	return sqlCondition(func(f filterScope, t filter.Term) string {
		return f.matchText(column, lowerMatches(t.Alternatives))
	})
}

// containsTextCondition returns a condition that holds if a text column contains one of the alternatives. It ignores case.
func containsTextCondition(column string) filterCondition {
	return sqlCondition(func(f filterScope, t filter.Term) string {
		return f.matchText("lower("+column+")", anywhereMatches(t.Alternatives))
	})
}

// anywhereMatches returns the alternatives in lower case. Alternatives without asterisks are changed to match anywhere in a
// text.
func anywhereMatches(any []filter.Match) []filter.Match {
	out := lowerMatches(any)
	for i, m := range out {
		if text, ok := m.ExactText(); ok {
			out[i].Pattern = filter.Pattern{"", text, ""}
		}
	}
	return out
}

// relatedRowCondition returns a condition on a text column, in lower case, of a related row, such as an image of a copy.
// related is the SQL of the subquery before the condition on the column.
func relatedRowCondition(related, column string) filterCondition {
	return sqlCondition(func(f filterScope, t filter.Term) string {
		return "EXISTS (" + related + f.matchText(column, lowerMatches(t.Alternatives)) + ")"
	})
}

// yesNoCondition returns the condition of a filter key with the values "yes" and "no". "yes" matches rows where the SQL
// condition holds.
func yesNoCondition(condition string) filterCondition {
	return func(f filterScope, t filter.Term) error {
		f.whereYesOrNo(t, func() string { return condition }, func() string { return "NOT COALESCE((" + condition + "), false)" })
		return nil
	}
}

// assignedHostCondition returns a condition that holds for pools or networks assigned to a host of the given name. column is the
// column of assignments that refers to the object, and id is the SQL of the object's ID. For actors who cannot see
// hosts the condition never holds, so that it does not reveal the hosts of an object.
func assignedHostCondition(column, id string) filterCondition {
	return func(f filterScope, t filter.Term) error {
		ids, err := []string{}, error(nil)
		if policy.May(f.actor, policy.InfraSee, "") {
			ids, err = f.idsByName(f, "hosts", t.Alternatives)
		}
		f.addConditionOrNegation(t.Not, "EXISTS (SELECT 1 FROM assignments x WHERE x."+column+" = "+id+" AND "+f.oneOfSQL("x.host_id", ids)+")")
		return err
	}
}

// poolIDsByName returns the IDs of the pools that the actor may see and whose names match.
func (f filterScope) poolIDsByName(any []filter.Match) ([]string, error) {
	var s statementBuilder
	s.addCondition(s.matchText("p.name", lowerMatches(any)))
	s.wherePoolVisible(f.actor, "")
	return collectRows(f, f.Queries, "SELECT p.id FROM pools p"+s.whereClause(), &s, pgx.RowTo[string])
}

// rowNameCondition returns a condition on the name of the row that a column refers to, such as a host. It first reads the IDs
// of the rows with such a name, because PostgreSQL chooses better plans for conditions on literal IDs.
func rowNameCondition(column, table string) filterCondition {
	return func(f filterScope, t filter.Term) error {
		ids, err := f.idsByName(f, table, t.Alternatives)
		f.addConditionOrNegation(t.Not, f.oneOfSQL(column, ids))
		return err
	}
}

// numberCondition returns a condition that compares an integer column with numbers. A number in the filter is divided by unit
// first, such as 1 MiB for a column in MiB.
func numberCondition(column string, unit float64) filterCondition {
	return sqlCondition(func(f filterScope, t filter.Term) string { return f.compareSQL(column, unit, t.Comparisons) })
}

// mebibyte is the number of bytes in one MiB, the unit of memory columns.
const mebibyte = 1 << 20

// dayCondition returns a condition that compares the day, in UTC, of a column with times.
func dayCondition(column string) filterCondition {
	return sqlCondition(func(f filterScope, t filter.Term) string {
		parts := make([]string, len(t.Comparisons))
		for i, c := range t.Comparisons {
			start := time.Unix(int64(c.Number), 0).UTC()
			end := start.AddDate(0, 0, 1)
			switch c.Operator {
			case "<":
				parts[i] = column + " < " + f.addArg(start)
			case "<=":
				parts[i] = column + " < " + f.addArg(end)
			case ">":
				parts[i] = column + " >= " + f.addArg(end)
			case ">=":
				parts[i] = column + " >= " + f.addArg(start)
			default:
				parts[i] = "(" + column + " >= " + f.addArg(start) + " AND " + column + " < " + f.addArg(end) + ")"
			}
		}
		return "(" + strings.Join(parts, " OR ") + ")"
	})
}

// labelsCondition returns a condition on the labels in a jsonb column.
func labelsCondition(column string) filterCondition {
	return sqlCondition(func(f filterScope, t filter.Term) string { return f.matchLabels(column, t.Alternatives) })
}

// compareSQL returns the condition that one of the comparisons holds for an integer column. It rounds the numbers to
// integers so that the result is the same, because PostgreSQL cannot use the column's index for fractions.
func (s *statementBuilder) compareSQL(column string, unit float64, all []filter.Comparison) string {
	parts := make([]string, len(all))
	for i, c := range all {
		value := c.Number / unit
		switch c.Operator {
		case ">", "<=":
			value = math.Floor(value)
		case ">=", "<":
			value = math.Ceil(value)
		}
		if value != math.Trunc(value) {
			parts[i] = "false" // no integer equals a fraction
			continue
		}
		parts[i] = column + " " + c.Operator + " " + s.addArg(int64(min(max(value, math.MinInt64), math.MaxInt64/2))) + "::bigint"
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}
