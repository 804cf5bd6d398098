import "uplot/dist/uPlot.min.css";
import "./tokens.css";
import "./style.css";
import { render } from "preact";
import { App } from "./view/app";

const page = document.getElementById("page");
if (page) render(<App />, page);
