package experiment
import ("testing";"strings";"fmt";"time")
func TestZZ(t *testing.T){
 for _,s:=range []string{"\"a","- 1\n","a1: 1\n","? ","\"\" ","a: |\n  b\n","*a ","&a ","! ","#x\n","'a'\n"," \n","[],","a: [1,2]\n","- - -\n","k: {a: b}\n","\n\n","%","--- \n","a: 'b\n","x y\n", "a:\n- b\n", "<<: a\n", ": ", ",", "[1, ", "\\\"", "\r", "\t- "} {
  for _,pre:=range []string{"","a: [", "a: \"", "a: |\n  ", "grid: {axes: {", "a: '"} {
  in:=pre+strings.Repeat(s,min((1<<20-20)/len(s),9990/max(strings.Count(s,"\n"),1)*map[bool]int{true:1,false:1000}[strings.Contains(s,"\n")]))
  t0:=time.Now()
  _,err:=Parse("x",[]byte(in),Options{})
  if d:=time.Since(t0); d>700*time.Millisecond { fmt.Printf("%q %q %v %.100v\n",pre,s,d,err) }
 }}
}
