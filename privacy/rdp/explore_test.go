package rdp

import ("testing";"fmt";"time";"os";"encoding/csv";"strconv";"math")

func TestExplore(t *testing.T) {
	c, _ := FixedSize(0.01, 2.5, []float64{1.001,1.5,2.5,5,50,100,256,512,1024,math.Inf(1)})
	fmt.Println(c.Times(50).Values())
	type pv struct{N,m,T int; z,d float64; want string}
	vs := []pv{{392000,5000,7840,1,1e-7,"18.8"},{392000,5000,784,1,1e-7,"5.6"},
	{250000,1000,1000,1,4e-8,"2.38"},{1250000,1000,1000,1,8e-9,"1.48"},{500000,1000,1000,1,2e-8,"1.79"},{1708824,1000,1000,1,5.85e-9,"1.47"},{1964706,1000,1000,1,5.09e-9,"1.40"},{2000000,1000,1000,1,5e-9,"1.39"},{1930588,1000,1000,1,5.18e-9,"1.40"},{342477,5000,2000,1,2.92e-6,"9.22"},
	{425,10,1000,.01,2.35e-3,"9.99e6"},{2125,10,1000,.01,4.71e-4,"9.99e6"},{850,10,1000,.01,1.18e-3,"9.99e6"},{2905,10,1000,.01,3.44e-4,"9.99e6"},{3340,10,1000,.01,2.99e-4,"9.99e6"},{3400,10,1000,.01,2.94e-4,"9.99e6"},{3282,10,1000,.01,3.05e-4,"9.99e6"}}
	var ints []float64
	for i:=2;i<=512;i++{ints=append(ints,float64(i))}
	tf := []float64{1.25,1.5,1.75,2,2.25,2.5,3,3.5,4,4.5}
	for i:=5;i<64;i++{tf=append(tf,float64(i))}
	tf=append(tf,128,256,512)
	for _,v:=range vs {
		q:=float64(v.m)/float64(v.N)
		fmt.Print(v.want)
		for _,o:=range [][]float64{ints,tf,DefaultOrders()} {
			c,_:=FixedSize(q,v.z,o); e,a:=c.Times(v.T).Epsilon(v.d,Classic)
			e2,a2:=c.Times(v.T).Epsilon(v.d,Improved)
			fmt.Printf(" | %.6g @%g imp %.6g @%g",e,a,e2,a2)
		}
		t0:=time.Now()
		c,_:=FixedSize(q,v.z/2,DefaultOrders()); e,a:=c.Times(v.T).Epsilon(v.d,Classic)
		d:=time.Since(t0)
		e2,a2:=c.Times(v.T).Epsilon(v.d,Improved)
		p,_:=Poisson(q,v.z,DefaultOrders()); e3,a3:=p.Times(v.T).Epsilon(v.d,Improved)
		fmt.Printf(" || proved %.6g @%g imp %.6g @%g poisson %.6g @%g %v\n",e,a,e2,a2,e3,a3,d)
	}
	f,_:=os.Open("/work/shared/reference/autodp-poisson-rdp.csv")
	rows,_:=csv.NewReader(f).ReadAll()
	worst:=map[string]float64{}; n:=0
	t0:=time.Now()
	for _,r:=range rows[1:] {
		var x [5]float64
		for i:=range x { x[i],_=strconv.ParseFloat(r[i],64) }
		c,err:=Poisson(x[1],x[2],[]float64{x[0]}); if err!=nil {t.Fatal(err)}
		got:=c.Times(int(x[3])).values[0]
		rel:=math.Abs(got/x[4]-1)
		k:="int"; if x[0]!=math.Trunc(x[0]) {k="frac sigma "+r[2]}
		if rel>1e-6 {n++; if n<30 {fmt.Println(r,got,rel)}}
		worst[k]=math.Max(worst[k],rel)
	}
	fmt.Println(len(rows),n,worst,time.Since(t0))
	t0=time.Now(); Poisson(5000./392000,1,DefaultOrders()); fmt.Println("poisson",time.Since(t0))
	t0=time.Now(); Poisson(5000./392000,.05,DefaultOrders()); fmt.Println("poisson",time.Since(t0))
	t0=time.Now(); FixedSize(5000./392000,100,DefaultOrders()); fmt.Println("fixed",time.Since(t0))
}
