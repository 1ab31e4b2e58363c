package report

import (
	"encoding/xml"
	"fmt"
	"io"

	"github.com/redfence/redfence/chaos/internal/check"
)

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *junitSkipped `xml:"skipped"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes a test case for each check.
func (r Report) JUnit(w io.Writer) error {
	suite := junitSuite{
		Name: fmt.Sprintf("chaos %s seed %d", r.Setup.Preset, r.Setup.Seed),
		Time: fmt.Sprintf("%.3f", r.Setup.Duration.Seconds()),
	}
	for _, kind := range check.Kinds() {
		c := junitCase{Class: "chaos." + kind.Class.String(), Name: kind.Name + ": " + kind.Says}
		if why := r.unmade(kind.Name); why != "" {
			c.Skipped = &junitSkipped{Message: why}
			suite.Skipped++
		}
		for _, v := range r.Result.Violations {
			if v.Check != kind.Name || v.Class != kind.Class {
				continue
			}
			if c.Failure == nil {
				c.Failure = &junitFailure{Message: fmt.Sprintf("%d times; first: %s %s", r.count(kind.Name), v.Key, v.What)}
				suite.Failures++
			}
			c.Failure.Text += v.Key + " " + v.What + "\n"
		}
		suite.Cases = append(suite.Cases, c)
	}
	if suite.Tests = len(suite.Cases); r.Code == survived {
		suite.Tests++
		suite.Failures++
		suite.Cases = append(suite.Cases, junitCase{Class: "chaos", Name: "the broken rule is noticed",
			Failure: &junitFailure{Message: "the mutant " + r.Setup.Mutant + " survived"}})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
